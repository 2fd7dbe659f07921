// An endless sequence of batches, epoch by epoch. A thread can prepare the next batch while the current one is in use.
#pragma once
#include <cstdint>
#include <functional>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "engine/check.h"

namespace foldgrad {

// The position of a run in its data. Checkpoints save it.
struct DataCursor {
  std::int64_t epoch = 0, batch = 0;  // both zero-based; Prefetched::next() returns the batch at this position
  bool operator==(const DataCursor&) const = default;
};

// A position in a sequence of batches.
class BatchSequence {
 public:
  explicit BatchSequence(std::int64_t per_epoch) : per_epoch_(per_epoch) {}
  virtual ~BatchSequence() = default;

  DataCursor cursor() const { return cursor_; }
  std::int64_t per_epoch() const { return per_epoch_; }  // 0 if there are no epochs

  // Moves the cursor to a position that cursor() returned, so that the same batches follow again. Throws
  // std::invalid_argument if the position is out of bounds.
  virtual void seek(DataCursor cursor) { cursor_ = cursor; }

 protected:
  DataCursor cursor_;

 private:
  std::int64_t per_epoch_;
};

template <class Batch>
class Prefetched : public BatchSequence {
 public:
  using Order = std::vector<std::int64_t>;
  struct Source {
    std::string name;  // used in messages
    std::int64_t per_epoch;
    std::function<Order(std::int64_t epoch)> order;
    std::function<Batch(const Order&, DataCursor)> make;  // must not have side effects
    bool prefetch;  // a thread makes the next batch in advance, which does not change the batches
  };
  explicit Prefetched(Source source)
      : BatchSequence(source.per_epoch), source_(std::move(source)), order_(source_.order(0)) {}
  Prefetched(const Prefetched&) = delete;
  Prefetched& operator=(const Prefetched&) = delete;

  // Returns the batch at the cursor and advances the cursor, from an epoch's last batch to the next epoch's first.
  Batch next() {
    Batch batch = ahead_.valid() ? ahead_.get() : source_.make(order_, cursor_);
    if (++cursor_.batch == source_.per_epoch) move_to({cursor_.epoch + 1, 0});
    if (source_.prefetch) ahead_ = std::async(std::launch::async, [this] { return source_.make(order_, cursor_); });
    return batch;
  }

  // Returns batch i of the first epoch, and moves the cursor to the batch after it.
  Batch at(std::int64_t i) {
    seek({0, i});
    return next();
  }

  void seek(DataCursor cursor) override {
    FOLDGRAD_CHECK(cursor.epoch >= 0 && cursor.batch >= 0 && cursor.batch < source_.per_epoch,
                   "{}: the cursor's epoch must be at least 0 and its batch in [0, {}), got epoch {}, batch {}",
                   source_.name, source_.per_epoch, cursor.epoch, cursor.batch);
    ahead_ = {};
    move_to(cursor);
  }

 private:
  void move_to(DataCursor cursor) {
    if (cursor.epoch != cursor_.epoch) order_ = source_.order(cursor.epoch);
    cursor_ = cursor;
  }

  Source source_;
  Order order_;               // the order of the cursor's epoch
  std::future<Batch> ahead_;  // the batch at the cursor; must be the last member, since its thread reads other members
};

}  // namespace foldgrad

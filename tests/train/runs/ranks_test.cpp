// Tests runs on several ranks: in one process, in processes with torchrun's variables, and, if mpirun is installed, in
// MPI processes.
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <regex>

#include "tests/engine/parallel/wired_processes.h"
#include "tests/train/runs/family_run.h"
#include "train/analyses/recording.h"
#include "train/tasks/families.h"

namespace foldgrad::testing {
namespace {

int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof address;
  ::bind(socket, reinterpret_cast<sockaddr*>(&address), size);
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  ::close(socket);
  return ntohs(address.sin_port);
}

class RanksRun : public TinyRun {
 protected:
  ProgramResult run(int processes, const std::string& arguments) {
    return processes == 1 ? run_program(arguments) : mpirun(processes, arguments);
  }
  static ProgramResult mpirun(int processes, const std::string& arguments) {
    // LeakSanitizer would also report the leaks of the MPI library.
    const std::string start =
        "ASAN_OPTIONS=detect_leaks=0 mpirun --allow-run-as-root --oversubscribe --mca btl_vader_single_copy_mechanism "
        "none";
    return run_after(fmt::format("{} -n {} ", start, processes), arguments + " --device cpu");
  }
  // Runs the program in several processes, with the environment variables that torchrun would set. Returns the exit
  // code of rank 0 and, as `err`, all its output.
  ProgramResult torchrun(int processes, const std::string& arguments) {
    const std::string log = files_ / "torchrun", one = fmt::format("'{}' {} --device cpu", program(), arguments);
    const std::string command = fmt::format(
        "export TORCHELASTIC_RUN_ID=none MASTER_ADDR=localhost MASTER_PORT={} WORLD_SIZE={}; "
        "for r in $(seq {} -1 1); do RANK=$r {} >/dev/null 2>{}.$r & done; "
        "RANK=0 {} >{} 2>&1; code=$?; wait; exit $code",
        free_port() - 1, processes, processes - 1, one, log, one, log);
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, "", read_bytes(log)};
  }
  void needs(const std::string& way) {
    if (!std::regex_search(run_program("doctor").out, std::regex("\n" + way + " +usable\n")))
      GTEST_SKIP() << "this build lacks this way to connect processes";
  }
};

class MpiRun : public RanksRun {
 protected:
  void SetUp() override {
    if (std::system("mpirun --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "there is no mpirun";
    needs("mpi");
  }
};

constexpr const char* kFour = "--set train.shards=4 --set train.average_decay=0.9 --set train.accumulate=2 ";

TEST_F(MpiRun, AnyNumberOfProcessesResumes) {
  ASSERT_EQ(run(1, arguments("whole", std::string(kFour) + "--set train.steps=6")).exit_code, 0);
  const std::string on = "--resume ";
  ASSERT_EQ(run(4, arguments("parts", std::string(kFour) + "--set train.steps=2")).exit_code, 0);
  ASSERT_EQ(run(2, arguments("parts", on + kFour + "--set train.steps=4")).exit_code, 0);
  ASSERT_EQ(run(1, arguments("parts", on + kFour + "--set train.steps=6")).exit_code, 0);
  expect_same_numbers("parts", "whole", "step-00000006");
}

TEST_F(RanksRun, ProcessesOfTorchrunHaveTheSameBits) {
  ASSERT_NO_FATAL_FAILURE(needs("torchrun"));
  if (IsSkipped()) return;
  ASSERT_EQ(run(1, arguments("1", kFour)).exit_code, 0);
  for (const int processes : {2, 4}) {
    const std::string out = std::to_string(processes);
    const ProgramResult result = torchrun(processes, arguments(out, kFour));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    expect_same_numbers(out, "1", "step-00000005");
  }
}

TEST_F(MpiRun, AnErrorOfOneProcessEndsAll) {
  const std::string one = arguments("out");
  const std::string other = std::string(" : -n 1 '") + program() + "' " + one + " --set train.lr=0.5";
  expect_failure(mpirun(1, one + " --device cpu" + other), 2, "all ranks must have the same configuration");
  EXPECT_FALSE(exists("out"));
}

TEST_F(RanksRun, NormsOfLayersAreOfTheWholeBatchAndOfWhatIsTrained) {
  const std::string frozen = "--set train.steps=1 --set 'train.freeze=[\"encoder.*\"]' --set norm.name=ln ";
  ASSERT_EQ(train("alone", frozen).exit_code, 0);
  ASSERT_EQ(train("ranks", frozen + "--set train.shards=2").exit_code, 0);
  const nlohmann::json want = events("alone", "layers").at(0).at("gradient_norms"),
                       got = events("ranks", "layers").at(0).at("gradient_norms");
  EXPECT_EQ(want.size(), 2u) << want;
  ASSERT_EQ(got.size(), want.size()) << got;
  for (const auto& [layer, norm] : want.items())
    EXPECT_NEAR(got.at(layer).get<double>(), norm.get<double>(), 1e-5 * norm.get<double>()) << layer;
}

// In the first update, the weights of the two runs are equal, and only the order of their sums differs.
TEST_F(RanksRun, RecordsAreOfAllRanks) {
  for (const std::string norm : {"un", "rmsnorm"}) {
    const std::string settings =
        "--set record.from=[1] --set record.steps=1 --set train.steps=1 --set norm.name=" + norm;
    const auto recorded = [&](const std::string& out, const std::string& more) {
      EXPECT_EQ(train(out, settings + more).exit_code, 0) << norm;
      return read_recording(files_ / out + "/statistics/begin.safetensors");
    };
    const Recording one = recorded(norm + "1", ""), four = recorded(norm + "4", " --set train.shards=4");
    ASSERT_EQ(one.sites.size(), four.sites.size());
    for (std::size_t i = 0; i < one.sites.size(); ++i)
      for (const auto member : {&SiteRecording::q, &SiteRecording::G}) {
        const auto &a = one.sites[i].*member, &b = four.sites[i].*member;
        ASSERT_EQ(a.size(), b.size());
        // G is a mean of positive and negative products, so its rounding error is relative to the largest product. We
        // saw errors of 7e-7 of the largest G.
        const double tolerance = 1e-5 * std::ranges::max(a);
        for (std::size_t k = 0; k < a.size(); ++k) ASSERT_NEAR(b[k], a[k], tolerance) << one.sites[i].site;
      }
  }
}

class Meeting : public RanksRun {
 protected:
  void SetUp() override { needs("torchrun"); }
  // Runs one of two processes, with torchrun's variables. The process waits two seconds for the other one.
  ProgramResult one(int rank, int port, const std::string& variables = "", const std::string& first = "") {
    return run_after(fmt::format("{}export TORCHELASTIC_RUN_ID=none MASTER_ADDR=localhost MASTER_PORT={} WORLD_SIZE=2 "
                                 "RANK={} {}; ",
                                 first, port, rank, variables),
                     arguments("out", "--communication-timeout 2 --device cpu"));
  }
};

TEST_F(Meeting, ProcessesThatDoNotComeAreNamedInTime) {
  const int port = free_port() - 1;
  expect_failure(one(0, port), 6,
                 fmt::format("error: parallel: process 1 of 2 did not connect to process 0 within 2 s, on port {} "
                             "($MASTER_PORT + 1)\n",
                             port + 1));
  expect_failure(one(1, port), 6,
                 fmt::format("error: parallel: process 1 waited 2 s for process 0 at tcp://localhost:{}, $MASTER_ADDR "
                             "and $MASTER_PORT + 1\n",
                             port + 1));
  expect_failure(one(1, port, "MASTER_ADDR=none.invalid"), 6, "error: parallel: $MASTER_ADDR: \"none.invalid\": ");
}

// Other programs connect to the port. Their bytes must not be mistaken for the address of a process, and the process
// must keep waiting. The bytes of the second connection are a message of ZeroMQ's first protocol, which does not name
// the sender.
TEST_F(Meeting, StrangersAreNotTakenForProcesses) {
  const int port = free_port() - 1;
  const std::string connect = fmt::format("exec 3<>/dev/tcp/localhost/{} && printf ", port + 1);
  const std::string strangers = fmt::format(
      "bash -c \"(for i in {{1..40}}; do ({0} 'GET / HTTP/1.0\\r\\n\\r\\n' >&3; sleep 0.05); "
      "({0} '\\001\\000\\005\\000abcd' >&3; sleep 0.05); done) 2>/dev/null & true\"; ",
      connect);
  const ProgramResult r = one(0, port, "", strangers);
  expect_failure(r, 6, "error: parallel: process 1 of 2 did not connect to process 0 within 2 s");
  EXPECT_TRUE(contains(r.err, " messages from other programs arrived")) << r.err;
}

// The program loads these libraries from its own directory, so a copy of the program in another directory does not find
// them.
TEST_F(RanksRun, ALibraryThatIsMissingIsNamed) {
  const std::string copy = files_ / "foldgrad";
  for (const auto& [variables, name, library] :
       {std::tuple("OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0", "MPI", "mpi"),
        {"TORCHELASTIC_RUN_ID=none MASTER_ADDR=localhost MASTER_PORT=1024 WORLD_SIZE=2 RANK=0", "ZeroMQ", "zmq"}}) {
    const std::string start = fmt::format("{} sh -c 'cp \"$0\" \"{}\" && exec \"{}\" \"$@\"' ", variables, copy, copy);
    expect_failure(run_after(start, arguments("out", "--device cpu")), 6,
                   fmt::format("error: parallel: {} is needed, but {}_{}.so: cannot open", name, copy, library));
  }
}

TEST_F(MpiRun, AProcessThatDoesNotComeIsNotWaitedForForEver) {
  const std::string other = " --device cpu : -n 1 sh -c 'sleep 20; exit 9'";
  expect_failure(
      mpirun(1, arguments("out", "--communication-timeout 1") + other), 6,
      "parallel: not all 2 processes started by mpirun arrived within 1 s; each process must run this command\n");
}

TEST_F(MpiRun, AnErrorOfAllIsPrintedOnce) {
  const ProgramResult r = mpirun(3, arguments("out", "--set train.shards=2"));
  EXPECT_EQ(r.exit_code, 2);
  const std::string said = "train.shards must be a multiple of the number of processes, 3, got 2";
  EXPECT_TRUE(contains(r.err, "error: " + said)) << r.err;
  EXPECT_EQ(r.err.find(said), r.err.rfind(said)) << r.err;
  EXPECT_FALSE(contains(r.err, "interrupted before")) << r.err;
}

TEST_F(RanksRun, ShardsThatAreNoPowerOfTwoAndMoreRanksThanExamplesAreRefused) {
  expect_error(arguments("out", "--set train.shards=3"), 2, "train.shards must be a power of two, got 3");
  expect_error(arguments("out", "--set train.shards=4 --set train.max_tokens=8"), 2,
               "the first batch has 2 examples for 4 ranks; use larger batches or fewer ranks (train.shards)");
  EXPECT_FALSE(exists("out"));
  expect_error(arguments("out", "--set train.shards=1024"), 2,
               "the first batch has 8 examples for 1024 ranks; use larger batches or fewer ranks (train.shards)");
}

TEST_F(MpiRun, EvaluateTogether) {
  ASSERT_EQ(train("out").exit_code, 0);
  const auto eval = [&](const std::string& model, const std::string& hypotheses) {
    return fmt::format("eval {} --data-dir {} --split valid --max-tokens 12 --json --hypotheses {}", files_ / model,
                       files_.path(), files_ / hypotheses);
  };
  const auto scores = [](const std::string& text) {
    auto json = nlohmann::json::parse(text);
    json.erase("decode_seconds");
    return json;
  };
  const nlohmann::json alone = scores(run(1, eval("out", "alone")).out);
  for (const int processes : {2, 4}) {
    const ProgramResult together = mpirun(processes, eval("out", "together"));
    ASSERT_EQ(together.exit_code, 0) << together.err;
    EXPECT_EQ(scores(together.out), alone) << processes;
    EXPECT_EQ(read_bytes(files_ / "together"), read_bytes(files_ / "alone")) << processes;
  }
  const std::string other = std::string(" : -n 1 '") + program() + "' " + eval("out/checkpoints/step-00000002", "no");
  expect_failure(mpirun(1, eval("out", "no") + " --device cpu" + other), 2, "all ranks must have the same model");
}

class SharedValidation : public AnyFamilyRun {
 protected:
  // Returns the validation of a new model with the configuration @config.toml.
  Validation validation(Communicator* communicator) {
    const ExperimentConfig config = read_config(files_ / "config.toml");
    return make_task(config, files_ / config.data_directory(), "", Device::cpu)->validate(communicator);
  }
};

TEST_F(SharedValidation, HasTheBitsOfOneRank) {
  for (const std::string& family : {std::string(kTinyConfig), kVitConfig, kCctConfig, kGptConfig}) {
    SCOPED_TRACE(family.substr(0, 30));
    write_bytes(files_ / "config.toml", family);
    const Validation alone = validation(nullptr);
    for (const int ranks : {2, 4})
      run_ranks(ranks, 1, [&](Communicator& c) {
        const Validation shared = validation(&c);
        EXPECT_GT(c.traffic().exchanges, 0);
        EXPECT_EQ(shared.loss, alone.loss);
        EXPECT_EQ(shared.deciding, alone.deciding);
        EXPECT_EQ(shared.scores, alone.scores);
        EXPECT_EQ(shared.text, alone.text);
        EXPECT_EQ(shared.samples, alone.samples);
        EXPECT_EQ(shared.exhibits, alone.exhibits);
      });
  }
}

}  // namespace
}  // namespace foldgrad::testing

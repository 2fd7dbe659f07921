// Tests the effect of every key of the configuration. Each row of kRows names a key and the first numbers of a run that
// change with it. The test compares a run with the key and a run without it; all earlier numbers of the two runs must
// be equal.
#include "tests/train/runs/settings_run.h"
#include "train/config/config.h"
#include "train/tasks/translation/sentence_piece.h"

namespace foldgrad::testing {
namespace {

using Names = std::vector<std::string>;

struct Row {
  const char* base;    // settings of both runs, added to those of kRunConfig
  const char* change;  // additional settings of the second run; the first one sets the key
  Names differs;       // the expected result of differences() for the two runs
};

constexpr const char* kRunConfig = R"([model]
width = 16
ffn_width = 16
heads = 2
encoder_layers = 1
decoder_layers = 1
[train]
max_tokens = 24
lr = 1e-2
initial_lr = 1e-3
[validate]
every = 3
beam = 2
[output]
log_every = 1
save_every = 1
keep = 9
)";
constexpr const char* kDictionaries = "data.source_dictionary=dict.de data.target_dictionary=dict.en";
constexpr const char* kOneBatch = "train.max_tokens=64 data.source_dictionary=dict.de data.target_dictionary=dict.en";
constexpr const char* kPieces = "data.tokenizer=sentencepiece data.vocabulary=24";

const std::vector<Row> kRows = {
    {"", "model.family=other", {"outcome"}},  // no family has this name
    {"", "model.width=32", {"shapes"}},
    {"", "model.ffn_width=32", {"shapes"}},
    {"", "model.heads=4", {"loss 1"}},
    {"", "model.encoder_layers=2", {"shapes"}},
    {"", "model.decoder_layers=2", {"shapes"}},
    {"", "model.max_positions=3", {"outcome"}},  // the longest sentence has 4 tokens
    {"", "model.dropout=0.4", {"loss 1"}},
    {"", "model.attention_dropout=0.4", {"loss 1"}},
    {"", "model.activation_dropout=0.4", {"loss 1"}},
    {"", "model.pre_norm=false", {"shapes"}},  // pre-norm has a normalizer after each stack
    {"", "model.activation=tanh", {"loss 1"}},
    {"", "model.share_embeddings=decoder", {"vocabulary"}},  // without shared embeddings, vocabularies are separate
    {kDictionaries, "model.share_embeddings=none", {"vocabulary"}},
    {"", "model.fixnorm=true", {"loss 1"}},
    {"", "model.initialization=xavier", {"loss 1"}},
    {"model.initialization=tfixup", "model.tfixup_scope=all", {"loss 1"}},
    {"", "norm.name=rmsnorm", {"shapes"}},

    {"data.train_pairs=8 data.valid_pairs=2", "data.task=numbers train.max_tokens=64", {"vocabulary"}},
    {"", "data.directory=other", {"vocabulary"}},
    {"", "data.train=valid", {"vocabulary"}},
    {"", "data.valid=test", {"validation loss"}},
    {"", "data.test=valid", {"test scores"}},
    {"", "data.source=fr", {"vocabulary"}},
    {"", "data.target=fr", {"vocabulary"}},
    {"", "data.lowercase=true", {"vocabulary"}},
    {"", "data.tokenizer=bpe data.bpe_codes=codes", {"vocabulary"}},
    {"data.tokenizer=bpe data.bpe_codes=codes", "data.bpe_codes=more.codes", {"vocabulary"}},
    {kDictionaries, "data.source_dictionary=dict.en", {"vocabulary"}},
    {kDictionaries, "data.target_dictionary=dict.de", {"vocabulary"}},
    {kPieces, "data.vocabulary=26", {"vocabulary"}},
    {kPieces, "data.sentencepiece_model=pieces.model", {"vocabulary"}},
    {kOneBatch, "data.train_pairs=5", {"work 1"}},
    {"", "data.valid_pairs=2", {"validation loss"}},
    {kOneBatch, "data.max_length=3", {"work 1"}},
    {kOneBatch, "data.max_ratio=1.3", {"work 1"}},

    {"", "train.shards=2", {"loss 1"}},  // the same sums, in another order
    {"norm.name=un train.shards=2", "norm.sync=false", {"loss 1"}},
    {"", "train.steps=2", {"weights end", "lr", "log", "validations", "checkpoints"}},
    {"train.schedule=cosine", "train.steps=4", {"weights end", "lr", "log", "validations", "checkpoints"}},
    {"", "train.epochs=2", {"weights end", "lr", "log", "validations", "checkpoints"}},  // 2 epochs have 4 batches
    {"", "train.max_tokens=16", {"work 1"}},
    {"", "train.accumulate=2", {"work 1"}},
    {"", "train.optimizer=sgd", {"moments 1"}},  // SGD without momentum has no moments
    {"", "train.optimizer=adamw", {"weights 1"}},
    {"", "train.beta1=0.8", {"moments 1"}},
    {"", "train.beta2=0.9", {"moments 1"}},
    {"", "train.eps=1e-3", {"weights 1"}},
    {"train.optimizer=sgd train.momentum=0.5", "train.momentum=0.9", {"weights end"}},  // no effect before update 2
    {"train.optimizer=sgd train.momentum=0.5", "train.nesterov=true", {"weights 1"}},
    {"", "train.weight_decay=0.5", {"weights 1"}},
    {"train.weight_decay=0.5", "train.no_decay=vectors", {"weights 1"}},
    {"", "train.lr=2e-2", {"weights end", "lr"}},  // the first update uses initial_lr
    {"", "train.schedule=constant", {}},           // the schedules differ only after update 3
    {"train.warmup=1", "train.schedule=constant", {"weights end", "lr"}},
    {"", "train.warmup=3", {"weights end", "lr"}},
    {"", "train.warmup_epochs=2", {"weights end", "lr"}},
    {"", "train.initial_lr=2e-3", {"weights 1", "lr"}},
    {"train.schedule=cosine train.warmup=1", "train.minimum_lr=5e-3", {"weights end", "lr"}},
    {"", "train.clip=0.5", {"moments 1"}},
    {"", "train.agc=0.01", {"gradient 1"}},
    {"train.agc=0.01", "train.agc_exclude=none", {"gradient 1"}},
    {"", "train.label_smoothing=0.3", {"loss 1"}},
    {"", "train.average_decay=0.5", {"weights 1"}},
    {"norm.name=un train.average_decay=0.5", "train.average_statistics=true", {"statistics end"}},
    {"", "train.dtype=bf16", {"loss 1"}},
    {"", "train.seed=2", {"work 1"}},
    {"train.lr=1e38 train.initial_lr=1e38", "train.on_nan=skip", {"outcome"}},
    {"", "train.from=FILES/run0", {"loss 1"}},
    {"train.from=FILES/run0", "train.head=new", {"loss 1"}},
    {"norm.name=un norm.un.warmup=2 norm.un.window=2 train.from=FILES/run1",
     "train.reset_iterations=false",
     {"loss 1"}},
    {"", "train.rates=[\"encoder.*=0.5\"]", {"weights 1"}},
    {"", "train.freeze=[\"encoder.*\"]", {"gradient 1"}},

    {"", "validate.every=2", {"validations"}},
    {"", "validate.beam=9", {"samples"}},
    {"validate.beam=5", "validate.length_penalty=0", {"samples"}},
    {"", "validate.max_length_a=0.4", {"samples"}},
    {"", "validate.max_length_b=4", {"samples"}},
    {"train.lr=1e-300 train.initial_lr=0 validate.every=1",
     "validate.patience=1",
     {"lr", "log", "validations", "checkpoints"}},

    {"output.save_every=3", "output.log_every=2", {"lr", "log"}},
    {"", "output.save_every=2", {"checkpoints"}},
    {"", "output.keep=1", {"checkpoints"}},

    {"record.steps=2", "record.from=[1]", {"recordings"}},
    {"record.from=[1,-2] record.steps=2", "record.steps=1", {"recordings"}},
};

std::string key_of(const Row& row) { return std::string(row.change).substr(0, std::string(row.change).find('=')); }

class ConfigEffects : public SettingsRun {
 protected:
  ConfigEffects() : SettingsRun(kRunConfig) {
    write_pair("train", "eins rot\nzwei\ndrei Alt gut\nneu rot\nEins zwei drei\ngut alt\nalt\n",
               "red one x\ntwo\nthree Old good\nnew new\nOne two three\ngood old\nold\n");
    write_pair("valid", "eins gut\ndrei\nzwei alt rot\n", "one good\nthree\ntwo old red\n");
    write_pair("test", "neu neu\nalt\n", "new old\nnew\n");
    for (const char* name : {"train", "valid"}) {
      write_bytes(files_ / (name + std::string(".fr")), "un\ndeux\ntrois\nquatre\ncinq\nsix\nsept\n");
      for (const char* language : {"de", "en"})
        write(fmt::format("other/{}.{}", name, language), "anders\nwo\nanders wo\n");
    }
    write_bytes(files_ / "valid.fr", "un\ndeux\ntrois\n");
    write_bytes(files_ / "dict.de", "rot 2\nalt 2\neins 1\nzwei 1\n");
    write_bytes(files_ / "dict.en", "old 2\nnew 2\none 1\n");
    write_bytes(files_ / "codes", "#version: 0.2\no t</w>\nr ot</w>\n");
    write_bytes(files_ / "more.codes", "#version: 0.2\no t</w>\nr ot</w>\ne i\n");
    if (sentence_piece_available())
      write_bytes(files_ / "pieces.model", SentencePiece::train({"rot alt neu gut", "red old new good"}, 16).model());
  }

  void write_pair(const std::string& name, const std::string& de, const std::string& en) {
    write_bytes(files_ / (name + ".de"), de);
    write_bytes(files_ / (name + ".en"), en);
  }

  RunNumbers numbers_with(std::string settings, bool with_test) {
    // A configuration may set train.steps or train.epochs, but not both, and train.warmup or train.warmup_epochs, but
    // not both.
    if (!contains(settings, "train.epochs")) settings = "train.steps=3 " + settings;
    if (!contains(settings, "train.warmup_epochs")) settings = "train.warmup=2 " + settings;
    std::ranges::replace(settings, ' ', ';');
    if (const std::size_t at = settings.find("FILES"); at != settings.npos) settings.replace(at, 5, files_.path());
    RunNumbers all = numbers(settings);
    if (with_test)
      all["test scores"] = run(fmt::format("eval @run{} --data-dir @ --split test --beam 1", runs_ - 1)).out;
    return all;
  }
};

TEST_F(ConfigEffects, EveryKeyChangesWhatItSaysAndNothingBefore) {
  std::map<std::string, RunNumbers> bases{{"", numbers_with("", false)}};  // rows with train.from need run0 and run1
  (void)numbers_with("norm.name=un norm.un.warmup=2 norm.un.window=2", false);
  for (const Row& row : kRows) {
    const std::string base = row.base, change = row.change;
    if (base == kPieces && !sentence_piece_available()) continue;
    const bool test = key_of(row) == "data.test";
    const std::string name = base + (test ? " test" : "");
    if (!bases.count(name)) bases[name] = numbers_with(base, test);
    EXPECT_EQ(differences(bases[name], numbers_with(base + " " + change, test)), row.differs)
        << base << " and " << change;
  }
}

// A key must be a trajectory key if, and only if, one of its rows in kRows expects it to change the trained numbers.
TEST(ConfigEffectsTable, NamesEveryKeyAndAgreesWithWhatIsSaidToDecideTheTraining) {
  std::map<std::string, bool> decides;
  for (const Row& row : kRows) {
    const auto trained = std::find(kConsequences.begin(), kConsequences.end(), "statistics end");
    bool& any = decides[key_of(row)];
    for (const std::string& name : row.differs)
      any = any || std::find(kConsequences.begin(), trained + 1, name) != trained + 1;
  }
  const std::vector<KeyWithValue> all = keys_of(ExperimentConfig());
  for (const auto& [key, value] : all) {
    ASSERT_TRUE(decides.count(key.full_name())) << key.full_name() << " has no row in kRows";
    // Three keys are excluded. train.steps and train.epochs decide only how long a run trains, unless the schedule
    // depends on them. A configuration need not name its family.
    const std::string name = key.full_name();
    if (name == "train.steps" || name == "train.epochs" || name == "model.family") continue;
    EXPECT_EQ(decides.at(key.full_name()), key.trajectory) << key.full_name();
  }
  EXPECT_EQ(all.size(), decides.size());
}

}  // namespace
}  // namespace foldgrad::testing

// heddle heuristic, as a process.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "dag/declaration/declaration.h"
#include "environment.h"
#include "heddle/heuristics/collect.h"
#include "heddle/network/plan.h"
#include "heddle/ops/linalg.h"
#include "heddle/records/record_log.h"
#include "heddle/support/error.h"
#include "heuristic/heuristic.h"
#include "network/run/output_difference.h"
#include "run_command.h"

namespace heddle {
namespace {

using ::testing::HasSubstr;

constexpr const char* kTarget = "llvm -mcpu=znver3 -threads=2";

class HeuristicCommand : public ::testing::Test {
 protected:
  HeuristicCommand() { std::filesystem::create_directories(folder_); }
  ~HeuristicCommand() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  /// A log in which tiles of four rows by two vectors were twice as fast as the rule's.
  std::string log_of_products() const {
    const Heuristic& h = heuristic_of("contraction");
    const Target target = Target::parse(kTarget);
    HeuristicLog log(path("log.jsonl"), h, "a machine", to_string(target));
    const ParameterSet tile = ParameterSet().set("tile_rows", 4).set("tile_cols", 16);
    for (std::int64_t m = 64; m <= 512; m += 16) {
      const Tensor c = ops::matmul(placeholder({m, m}, f32, "A"), placeholder({m, m}, f32, "B"));
      log.add("matmul:" + std::to_string(m), build_choices(h, {c}, target).built.at(0).features,
              {{tile, 1e-3}, {h.fallback, 2e-3}});
    }
    return path("log.jsonl");
  }

 private:
  const std::string folder_ = temporary("heuristic");
};

/// A network of one product, whose plan has another graph than the rule takes.
Network with_another_graph(std::int64_t depth, const Target& target) {
  const Tensor x = placeholder({7, depth}, f32, "x"), w = placeholder({depth, 64}, f32, "w");
  const Network network({ops::matmul(x, w)}, target);
  const BuildOutcome outcome = build_choices(
      heuristic_of("alternative"), network.tasks()[0].tmpl.dag().direct().outputs(), target);
  if (outcome.built.empty()) throw_runtime_error("no choices: " + outcome.why_not);
  const BuiltChoices& built = outcome.built[0];
  TuneReport report;
  const std::string rule = built.rule.static_schedule().dag().alternative();
  for (const auto& [id, schedule] : built.choices) {
    const std::string graph = built.schedules[schedule].dag().alternative();
    if (graph == rule || !report.tasks.empty()) continue;
    TaskResult result{.name = "product", .config = {}, .schedule = built.schedules[schedule]};
    result.improved = true;
    result.rounds = 9;
    report.tasks.push_back(std::move(result));
  }
  if (report.tasks.empty()) throw_runtime_error("the rule's graph is the only one");
  NetworkPlan plan = plan_of(network, report);
  for (PlannedNode& n : plan.nodes) n.proof = PlanProof::None;
  const Network planned = network.with_plan(plan);
  if (!planned.plan()) throw_runtime_error("the plan is not used");
  return planned;
}

TEST_F(HeuristicCommand, SettledPicksTrain) {
  const testing::Variable log("HEDDLE_PICK_LOG", path("picks.jsonl"));
  const Target target = Target::parse("llvm -mcpu=native -threads=2");
  SettleOptions settle{.store = nullptr};
  settle.time = [](std::size_t, std::size_t variant, FunctionRef<void()> run) {
    run();
    return variant == 0 ? 1e-6 : 2e-6;  // the other graph is faster
  };
  for (std::int64_t depth = 2048; depth < 2048 + 16 * 64; depth += 64) {
    const Network network = with_another_graph(depth, target);
    std::vector<Tensor> args = ComputeDag(network.outputs()).placeholders();
    args.push_back(network.outputs()[0]);
    const NetworkKernel kernel = network.build_settling(args, settle);
    const std::vector<NDArray> arrays = network::random_arrays(kernel, {}, Device::cpu());
    for (int call = 0; call < 24; ++call) kernel.call(arrays);
    ASSERT_EQ(kernel.picks().at(0).picked, "plan");
  }
  const cli::TuningLogs read = cli::read_tuning_logs({path("picks.jsonl")});
  EXPECT_TRUE(read.problems.empty());
  EXPECT_EQ(read.records.size(), 32U);
  const HeuristicData data = cli::data_from_records(read, "alternative");
  ASSERT_EQ(data.problems.size(), 16U);
  for (const HeuristicProblem& p : data.problems) {
    ASSERT_TRUE(p.has(p.fallback));
    EXPECT_DOUBLE_EQ(p.seconds[static_cast<std::size_t>(p.fallback)], 2e-6);
    EXPECT_EQ(std::ranges::count(p.seconds, 1e-6), 1);
  }
  const CommandResult trained = heddle_command("heuristic train alternative --json --records " +
                                               path("picks.jsonl") + " -o " + path("picks.tree"));
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_TRUE(std::filesystem::exists(path("picks.tree")));
}

TEST_F(HeuristicCommand, TrainsExplainsAndGenerates) {
  const std::string log = log_of_products();
  const std::string tree = path("llvm-znver3.contraction.tree");
  const CommandResult trained =
      heddle_command("heuristic train contraction --json --log " + log + " -o " + tree);
  ASSERT_EQ(trained.status, 0) << trained.err;
  const Json worth = Json::parse(trained.out);
  EXPECT_EQ(worth.at("tree").as_string(), tree);

  const std::string hub = "HEDDLE_TOPHUB=off:" + std::filesystem::path(tree).parent_path().string();
  const std::string subject = std::string("matmul:200x200x200 --target '") + kTarget + "'";
  const CommandResult said = heddle_command("heuristic explain contraction " + subject, hub);
  ASSERT_EQ(said.status, 0) << said.err;
  EXPECT_THAT(said.out, HasSubstr("region 0 of 1 (29 problems)"));
  EXPECT_THAT(said.out, HasSubstr("so: tile_cols 16, tile_rows 4"));
  const CommandResult regions =
      heddle_command(std::string("heuristic explain contraction --target '") + kTarget + "'", hub);
  ASSERT_EQ(regions.status, 0) << regions.err;
  EXPECT_THAT(regions.out, HasSubstr("region 0 of 1 (29 problems): {\"tile_cols\":16,"));
  const CommandResult schedule = heddle_command("explain --show schedule " + subject, hub);
  EXPECT_THAT(schedule.out, HasSubstr("tree llvm-znver3.contraction, analytic rule of"));
  EXPECT_THAT(schedule.out, HasSubstr(".split(i, 4)"));

  // The losses that a leaf may have can be given; they are not negative.
  for (const std::string& command :
       {"train contraction -o " + path("strict.tree"), std::string("eval contraction")}) {
    const std::string on_log = "heuristic " + command + " --log " + log;
    const CommandResult strict =
        heddle_command(on_log + " --allowed-loss 0 --allowed-worst-loss 0");
    EXPECT_EQ(strict.status, 0) << strict.err;
    EXPECT_EQ(heddle_command(on_log + " --allowed-worst-loss -1").status, 2);
  }
  EXPECT_THAT(read_file(path("strict.tree")), HasSubstr("\"allowed_worst_loss\": 0"));

  const std::string header = path("table.h");
  EXPECT_EQ(heddle_command("heuristic gen contraction --tree " + tree + " -o " + header).status, 0);
  EXPECT_THAT(read_file(header), HasSubstr("k_contraction"));
}

// The subjects of a network's nodes name no declarations; the records have them.
TEST_F(HeuristicCommand, LogsOfNodesTeach) {
  const Heuristic& h = heuristic_of("contraction");
  const Tensor a = placeholder({96, 80}, f32, "A"), b = placeholder({80, 112}, f32, "B");
  const Tensor c = ops::matmul(a, b);
  const BuiltChoices built = build_choices(h, {c}, Target::parse(kTarget)).built.at(0);
  const Template& t = built.rule;
  std::vector<Record> records;
  const auto add = [&](const Config& config, double seconds) {
    records.push_back(make_record("node 3", t, config));
    records.back().seconds = {seconds};
  };
  add(t.default_config(), 2e-3);
  // Two knobs of the heuristic moved, which is none of its candidates.
  Config moved = t.default_config();
  int moves = 0;
  for (size_t k = 0; k < moved.values.size() && moves < 2; ++k) {
    const Knob& knob = t.knobs()[k];
    if (!built.of_rule.has(knob.name)) continue;
    for (const std::int64_t value : knob.values) {
      Config next = moved;
      next.values[k] = value;
      if (value == moved.values[k] || !t.why_invalid(next).empty()) continue;
      moved = next;
      ++moves;
      break;
    }
  }
  ASSERT_EQ(moves, 2);
  add(moved, 1e-3);
  const auto data = [&] {
    std::ofstream(path("log.jsonl")) << to_lines(records);
    return cli::data_from_records(cli::read_tuning_logs({path("log.jsonl")}), "contraction");
  };
  EXPECT_EQ(data().problems.size(), 0u) << "nothing says what node 3 is";
  records[0].declaration = declaration_to_json(ComputeDag({c}), {a, b, c});
  const HeuristicData known = data();
  ASSERT_EQ(known.problems.size(), 1u);
  EXPECT_EQ(known.problems[0].best(), 1e-3);
  EXPECT_EQ(known.problems[0].features.size(), h.all_features().size());
  // prune keeps what the best record needs.
  ASSERT_EQ(
      heddle_command("records prune --keep 1 " + path("log.jsonl") + " -o " + path("kept")).status,
      0);
  const std::vector<Record> kept = read_records(path("kept")).records;
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept[0].declaration, records[0].declaration);
  // A declaration that was changed by hand is not believed.
  records[0].declaration["checksum"] = "0000000000000000";
  EXPECT_EQ(data().problems.size(), 0u);
}

TEST_F(HeuristicCommand, BadInputExitsTwoAndHelps) {
  const std::string log = log_of_products(), tree = path("t.tree");
  const std::pair<std::string, const char*> all[] = {
      {"heuristic", "subcommand"},
      {"heuristic lsit", "did you mean 'list'?"},
      {"heuristic collect contracton --log " + log, "did you mean 'contraction'?"},
      {"heuristic collect contraction", "--log is required"},
      {"heuristic collect contraction --log /nowhere/x.jsonl", "folder that is there"},
      {"heuristic collect contraction --cores x --log " + log, "is no list of cores"},
      {"heuristic collect contraction --budget 0 --log " + log, "budget"},
      {"heuristic train contraction", "there are no logs to learn from"},
      {"heuristic train reduction --log " + log, "the logs are of heuristic 'contraction'"},
      {"heuristic eval contraction --log " + log + " --tree /nowhere.tree", "/nowhere.tree"},
      {"heuristic explain contraction matmul:9x9x9", "nothing was learned of 'contraction'"}};
  for (const auto& [command, says] : all) {
    const CommandResult r = heddle_command(command, "HEDDLE_TOPHUB=off");
    EXPECT_EQ(r.status, command.find("nowhere") == std::string::npos ? 2 : r.status) << command;
    EXPECT_NE(r.status, 0) << command;
    EXPECT_THAT(r.err, HasSubstr(says)) << command;
  }
  EXPECT_FALSE(std::filesystem::exists(tree));
  for (const char* command : {"list", "collect", "train", "eval", "gen", "explain"}) {
    const CommandResult help = heddle_command(std::string("heuristic ") + command + " --help");
    EXPECT_EQ(help.status, 0);
    EXPECT_THAT(help.out, HasSubstr("Example")) << command;
  }
}

TEST_F(HeuristicCommand, LearnsIntoAFolderOfTheUsers) {
  const std::string folder = "HEDDLE_LEARNED=" + path("learned");
  const CommandResult ran =
      heddle_command("learn --budget 1s --heuristics reduction --threads 1 --json -q", folder);
  ASSERT_EQ(ran.status, 0) << ran.err;
  const Json report = Json::parse(ran.out);
  EXPECT_EQ(report.at("folder").as_string(), path("learned"));
  ASSERT_EQ(report.at("lessons").size(), 1U);
  EXPECT_EQ(report.at("lessons").at(0).at("end").as_string(), "too few");
  const CommandResult shown = heddle_command("learn --show", folder);
  EXPECT_EQ(shown.status, 0);
  EXPECT_THAT(shown.out, HasSubstr("nothing was learned for this machine in " + path("learned")));
  EXPECT_EQ(heddle_command("learn --forget", folder).status, 0);
}

TEST_F(HeuristicCommand, LearningWithoutAFolderOrOfNothingKnownIsBadInput) {
  EXPECT_EQ(heddle_command("learn --budget 1s", "HEDDLE_LEARNED=off").status, 2);
  EXPECT_EQ(heddle_command("learn --heuristics shapes").status, 2);
  EXPECT_EQ(heddle_command("learn --from not_there.onnx:batch=1").status, 2);
  EXPECT_EQ(heddle_command("learn --from not_there.jsonl", "HEDDLE_LEARNED=" + path("l")).status,
            2);
}

}  // namespace
}  // namespace heddle

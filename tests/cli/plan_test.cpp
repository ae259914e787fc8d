// Plans of models: tune writes one, other commands take it, and `heddle plan` shows and compares.
#include "heddle/network/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "heddle/onnx/import.h"
#include "heddle/support/json.h"
#include "heddle/support/rng.h"
#include "onnx/toy_decoder.h"
#include "run_command.h"
#include "source_dir.h"
#include "support/files/file.h"

namespace heddle {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// A copy of the digits' network in a folder of its own.
class PlanCommands : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!onnx_available()) GTEST_SKIP() << "built without ONNX import";
    std::filesystem::create_directories(folder_);
    const std::string data = source_dir() + "/tutorials/data/";
    for (const auto& entry : std::filesystem::directory_iterator(data)) {
      if (entry.path().filename().string().starts_with("digits"))
        std::filesystem::copy(entry.path(), folder_ / entry.path().filename());
    }
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  std::string model() const { return file("digits.onnx") + ":batch=1"; }

  /// A plan of the network on one thread, as if each node had been tuned to the naive schedule.
  NetworkPlan made(int64_t batch = 1) const {
    OnnxOptions options;
    options.batch = batch;
    const OnnxModel net = import_onnx(file("digits.onnx"), options);
    Target target = Target::host();
    target.cores = 1;
    const Network network(net.outputs, target);
    TuneReport report;
    for (const Schedule& s : network.naive_schedules()) {
      TaskResult result{.name = "node", .config = {}, .schedule = s};
      result.improved = true;
      result.rounds = 9;
      report.tasks.push_back(std::move(result));
    }
    NetworkPlan plan = plan_of(network, report);
    plan.model = "digits.onnx:batch=" + std::to_string(batch);
    return plan;
  }

  std::filesystem::path folder_ = temporary("plan");
};

TEST_F(PlanCommands, RecordsWhySaysOfEachNodeWhatAnswered) {
  const auto answers = [&](const std::string& subject) {
    const CommandResult r = heddle_command("records why " + subject + " --threads 1 --json -q",
                                           "HEDDLE_TOPHUB=off HEDDLE_LOG_FILE=");
    EXPECT_EQ(r.status, 0) << r.err;
    std::vector<std::string> by;
    const Json all = Json::parse(r.out);
    for (const Json& node : all.elements()) by.push_back(node.at("by").as_string());
    return by;
  };
  NetworkPlan plan = made();
  EXPECT_EQ(answers(model()), std::vector<std::string>(plan.nodes.size(), "rule"));
  const std::string first_node = plan.nodes[0].name;
  plan.nodes.erase(plan.nodes.begin());
  save_plan(plan, file("digits.heddle"));
  std::vector<std::string> planned(plan.nodes.size(), "plan");
  planned.insert(planned.begin(), "rule");
  EXPECT_EQ(answers(file("digits.heddle")), planned);
  const CommandResult r = heddle_command("records why " + model() + " --threads 1",
                                         "HEDDLE_TOPHUB=off HEDDLE_LOG_FILE=");
  EXPECT_THAT(r.out, AllOf(HasSubstr(first_node), HasSubstr("plan: it is not in the plan"),
                           HasSubstr("record: there are no records at all"),
                           HasSubstr("near record: no races on this chip"), HasSubstr("tree: ")));
}

TEST_F(PlanCommands, TuneWritesOneAndExportTakesAllOfIt) {
  const std::string plan = file("digits.heddle"), log = file("log.jsonl");
  const std::string tune =
      "tune " + model() + " --budget 20s --trials 40 -q -o " + plan + " --log " + log;
  const CommandResult tuned = heddle_command(tune);
  ASSERT_EQ(tuned.status, 0) << tuned.err;
  EXPECT_THAT(tuned.out, IsEmpty());
  const NetworkPlan first = load_plan(plan);
  EXPECT_EQ(first.model, "digits.onnx:batch=1");
  EXPECT_EQ(first.target, Target::host());
  ASSERT_FALSE(first.nodes.empty());
  std::filesystem::remove(log);
  // In a fresh shell, with no flag and no variable.
  const CommandResult exported = heddle_command("export " + model() + " -o " + file("out"));
  ASSERT_EQ(exported.status, 0) << exported.err;
  const std::string all = std::to_string(first.nodes.size());
  EXPECT_THAT(exported.err, HasSubstr("plan " + plan + ": " + all + " of " + all + " nodes"));
  EXPECT_THAT(exported.err, Not(HasSubstr(";")));
  // The plan alone names model and threads.
  const CommandResult run = heddle_command("run " + plan + " --time 0");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr(all + " of " + all + " nodes"));
  // Another run goes on from it and leaves a whole one. Races on a busy machine decide who wins.
  EXPECT_EQ(heddle_command(tune).status, 0);
  EXPECT_FALSE(load_plan(plan).nodes.empty());
}

TEST_F(PlanCommands, OfARangeServesEveryCommand) {
  const std::string range = file("digits.onnx") + ":batch=1..4", plan = file("range.heddle"),
                    other = file("other.heddle");
  const CommandResult tuned =
      heddle_command("tune " + range + " --threads 1 --budget 12s --trials 8 -q -o " + plan +
                     " --log " + file("range.jsonl"));
  ASSERT_EQ(tuned.status, 0) << tuned.err;
  const NetworkPlan made = load_plan(plan);
  EXPECT_EQ(made.model, "digits.onnx:batch=1..4");
  EXPECT_TRUE(std::any_of(made.nodes.begin(), made.nodes.end(),
                          [](const PlannedNode& n) { return !n.kernels.is_null(); }));
  const std::string all = std::to_string(made.nodes.size()), whole = all + " of " + all + " nodes";
  for (const std::string& command :
       {"run " + plan + " --time 0", "export " + plan + " -o " + file("range"), "profile " + plan,
        "explain " + plan, "plan check " + plan}) {
    const CommandResult r = heddle_command(command);
    EXPECT_EQ(r.status, 0) << command << "\n" << r.err;
    EXPECT_THAT(r.out + r.err, HasSubstr(whole)) << command;
  }
  // On another number of threads its kernels race again, without a search.
  const CommandResult moved = heddle_command("run " + plan + " --threads 2 --time 0");
  EXPECT_EQ(moved.status, 0) << moved.err;
  EXPECT_THAT(moved.err, HasSubstr("made for 1 thread"));
  const CommandResult retuned =
      heddle_command("plan retune " + plan + " --threads 2 --budget 3s -o " + other);
  ASSERT_EQ(retuned.status, 0) << retuned.out << retuned.err;
  EXPECT_EQ(load_plan(other).target.cores, 2);
  EXPECT_EQ(heddle_command("plan diff " + plan + " " + other).status, 1);
  EXPECT_EQ(heddle_command("plan merge " + plan + " " + plan + " -o " + file("m.heddle")).status,
            0);
  EXPECT_EQ(load_plan(file("m.heddle")).nodes.size(), made.nodes.size());
}

TEST_F(PlanCommands, OfADecoderIsOfTheNetworkThatUpdatesItsStates) {
  const testing::ModelFolder models("plan_decoder");
  const std::string subject = testing::decoder_file(models, testing::random_weights(1, 0.5)) +
                              ":batch=1,seq=1..3,past=1..9,total=past+seq --states";
  const std::string plan = file("decoder.heddle");
  const CommandResult tuned =
      heddle_command("tune " + subject + " --threads 1 --budget 8s --trials 4 -q -o " + plan +
                     " --log " + file("decoder.jsonl"));
  ASSERT_EQ(tuned.status, 0) << tuned.err;
  const NetworkPlan made = load_plan(plan);
  const std::string all = std::to_string(made.nodes.size()), whole = all + " of " + all + " nodes";
  for (const std::string& command :
       {"plan check " + plan, "plan retune " + plan + " --budget 1s", "plan check " + plan,
        "run " + plan + " --sizes 3x2 --time 0", "profile " + plan + " --sizes 3x2",
        "explain " + plan, "export " + plan + " -o " + file("decoder")}) {
    const CommandResult r = heddle_command(command);
    EXPECT_EQ(r.status, 0) << command << "\n" << r.out << r.err;
    EXPECT_THAT(r.out + r.err, HasSubstr(whole)) << command;
  }
  const CommandResult deployed =
      heddle_command("deploy " + subject + " --threads 1 --budget 2s -o " + file("deployed"));
  EXPECT_EQ(deployed.status, 0) << deployed.out << deployed.err;
  const std::string json = file("bench.json");
  const CommandResult bench =
      heddle_command("bench " + plan + " --sizes 3x2,9x1 --time 0.01 --json " + json);
  EXPECT_EQ(bench.status, 0) << bench.out << bench.err;
  EXPECT_THAT(bench.err, HasSubstr(whole));
  const Json rows = Json::parse(read_file(json)).at("ranges").elements()[0].at("rows");
  ASSERT_EQ(rows.size(), 2u);
  for (const Json& row : rows.elements())
    EXPECT_EQ(row.at("forms").elements()[0].at("difference").as_string(), "");
}

TEST_F(PlanCommands, WhatIsUnsureIsSettledInARunAndRemembered) {
  NetworkPlan plan = made();
  for (PlannedNode& n : plan.nodes) n.proof = PlanProof::None;
  save_plan(plan, file("digits.heddle"));
  const std::string run = "run " + file("digits.heddle") + " -q --settle --time 0.2";
  const std::string picks = "HEDDLE_PICKS=" + file("picks");
  const CommandResult first = heddle_command(run, picks);
  ASSERT_EQ(first.status, 0) << first.err;
  const std::string nodes = std::to_string(plan.nodes.size());
  EXPECT_THAT(first.out, HasSubstr("unsure  " + nodes + " of " + nodes + " nodes"));
  EXPECT_EQ(count(first.out, ", measured"), static_cast<int>(plan.nodes.size())) << first.out;
  const CommandResult later = heddle_command(run, picks);
  EXPECT_EQ(count(later.out, ", remembered"), static_cast<int>(plan.nodes.size())) << later.out;
  EXPECT_THAT(heddle_command("picks list", picks).out, HasSubstr(plan.nodes[0].name));
  const CommandResult range =
      heddle_command("run " + file("digits.onnx") + ":batch=1..4 -q --settle --time 0", picks);
  EXPECT_EQ(range.status, 2);
  EXPECT_THAT(range.err, HasSubstr("settled for one size"));
}

TEST_F(PlanCommands, CtrlCLeavesAWholeOne) {
  const std::string plan = file("digits.heddle");
  save_plan(made(), plan);
  const CommandResult stopped = heddle_command(
      "tune " + model() + " --threads 1 --budget 10m -q -o " + plan + " --log " + file("log.jsonl"),
      "timeout --preserve-status -s INT 5");
  EXPECT_EQ(stopped.status, 130) << stopped.err;
  // What was proven stays, unless a race in these seconds proved something else.
  const NetworkPlan left = load_plan(plan);
  EXPECT_EQ(left.model, "digits.onnx:batch=1");
  ASSERT_FALSE(left.nodes.empty());
  for (const PlannedNode& node : made().nodes) {
    const PlannedNode* kept = left.find(node.hash);
    EXPECT_TRUE(kept == nullptr || kept->schedule == node.schedule ||
                kept->proof == PlanProof::Race)
        << node.name;
  }
}

TEST_F(PlanCommands, ACommandSaysWhatItTookAndWhatNot) {
  save_plan(made(), file("digits.heddle"));
  const std::string run = "run " + model() + " --time 0 --threads ";
  EXPECT_THAT(heddle_command(run + "1").err,
              AllOf(HasSubstr("digits.heddle: "), Not(HasSubstr(";"))));
  EXPECT_THAT(heddle_command(run + "2").err,
              HasSubstr("it was made for 1 thread, and this is for 2"));
  EXPECT_THAT(heddle_command(run + "1 -q").err, IsEmpty());
  EXPECT_THAT(heddle_command(run + "1 --plan none").err, HasSubstr("no plan: rules decide"));
  const CommandResult batch =
      heddle_command("run " + file("digits.onnx") + ":batch=2 --time 0 --threads 1");
  EXPECT_EQ(batch.status, 0) << batch.err;
  EXPECT_THAT(batch.err, HasSubstr("another declaration"));
  // The names of the nodes are in the explanation, and JSON stays clean.
  const CommandResult shown = heddle_command("explain " + model() + " --threads 1");
  EXPECT_THAT(shown.out, HasSubstr("the plan decides for"));
  EXPECT_THAT(heddle_command("explain " + model() + " --threads 1 -q").err, IsEmpty());
  const CommandResult node =
      heddle_command("explain " + file("digits.heddle") + " --node 0 --show schedule");
  EXPECT_EQ(node.status, 0) << node.err;
  EXPECT_THAT(node.out, HasSubstr("plan: naive"));
  const CommandResult profile =
      heddle_command("profile " + model() + " --threads 1 --time 0.01 --json");
  EXPECT_EQ(profile.status, 0) << profile.err;
  EXPECT_NO_THROW(Json::parse(profile.out));
  std::filesystem::remove(file("digits.heddle"));
  EXPECT_THAT(heddle_command(run + "1").err, HasSubstr("no plan " + file("digits.heddle")));
}

TEST_F(PlanCommands, WhatIsNamedHasToBeThereAndRight) {
  const std::string plan = file("p.heddle"), beside = file("digits.heddle");
  for (const char* command : {"run ", "explain ", "profile ", "export -o x "}) {
    const CommandResult r = heddle_command(command + model() + " --plan " + plan);
    EXPECT_EQ(r.status, 2) << command;
    EXPECT_THAT(r.err, HasSubstr("there is no file '" + plan)) << command;
  }
  EXPECT_EQ(heddle_command("run " + plan).status, 2);
  EXPECT_EQ(heddle_command("explain matmul:8x8x8 --plan " + plan).status, 2);
  const std::string text = to_text(made());
  write_file_atomic(plan, text.substr(0, text.size() / 2));
  const CommandResult broken = heddle_command("run " + model() + " --plan " + plan);
  EXPECT_EQ(broken.status, 2);
  EXPECT_THAT(broken.err, AllOf(HasSubstr(plan + ":"), HasSubstr("help:")));
  // One that was not named is passed over with a word.
  std::filesystem::copy(plan, beside);
  const CommandResult passed = heddle_command("run " + model() + " --time 0");
  EXPECT_EQ(passed.status, 0) << passed.err;
  EXPECT_THAT(passed.err, HasSubstr("the plan beside the model is not used: " + beside));
  // It is not written over either.
  const CommandResult tune = heddle_command("tune " + model() + " --budget 1s -o " + plan);
  EXPECT_EQ(tune.status, 2);
  EXPECT_EQ(read_file(plan), text.substr(0, text.size() / 2));
  save_plan(made(2), plan);
  const CommandResult other =
      heddle_command("tune " + model() + " --threads 1 --budget 1s -o " + plan);
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.err, HasSubstr("the plan of another network"));
  EXPECT_EQ(heddle_command("tune matmul:8x8x8 --budget 1s -o " + plan).status, 2);
}

TEST_F(PlanCommands, AreFoundInTheUsersFolderToo) {
  std::filesystem::create_directories(folder_ / "user");
  const std::string user = file("user/digits.heddle"), beside = file("digits.heddle"),
                    run = "run " + model() + " --time 0 --threads 1",
                    variables = "HEDDLE_TOPHUB=off HEDDLE_LEARNED=" + file("user");
  save_plan(made(), user);
  EXPECT_THAT(heddle_command(run, variables).err, HasSubstr("plan " + user + ": "));
  // The one beside the model comes first.
  save_plan(made(), beside);
  EXPECT_THAT(heddle_command(run, variables).err, HasSubstr("plan " + beside + ": "));
  std::filesystem::remove(beside);
  // A plan of the name whose nodes are others is left alone, and so is a broken one.
  NetworkPlan other = made();
  for (PlannedNode& n : other.nodes) ++n.hash;
  save_plan(other, user);
  EXPECT_THAT(heddle_command(run, variables).err,
              HasSubstr("the plan of the model's name is of another network: " + user));
  // Types were chosen for the weights of one network, and names are soon alike.
  NetworkPlan shorter = made();
  shorter.passes = "precision@conv2d:*=bf16";
  save_plan(shorter, user);
  EXPECT_THAT(heddle_command(run, variables).err, HasSubstr("has types that were chosen for one"));
  save_plan(shorter, beside);
  EXPECT_THAT(heddle_command(run, variables).err, HasSubstr("plan " + beside + ": "));
  std::filesystem::remove(beside);
  write_file_atomic(user, "{");
  const CommandResult broken = heddle_command(run, variables);
  EXPECT_EQ(broken.status, 0) << broken.err;
  EXPECT_THAT(broken.err, HasSubstr("the plan of the model's name is not used: " + user));
}

// A plan is read by people and programs that may change it. Whatever they did to it, a run computes the
// same, or ends with an error that helps.
TEST_F(PlanCommands, TamperedPlansAreErrorsOrComputeTheSame) {
  const std::string plan = file("p.heddle"), text = to_text(made());
  const std::string run = "run " + model() + " --threads 1 --time 0 --plan ";
  // The mean of the output, which a run prints to four digits.
  const auto output = [](const CommandResult& r) {
    const size_t mean = r.out.find("mean ", r.out.find("output  logits"));
    return mean == std::string::npos ? NAN : std::stod(r.out.substr(mean + 5));
  };
  const double want = output(heddle_command(run + "none"));
  ASSERT_TRUE(std::isfinite(want));
  Rng rng(7);
  int refused = 0, taken = 0;
  for (int n = 0; n < 60; ++n) {
    std::string changed = text;
    for (int changes = n % 3 == 0 ? 1 : 6; changes > 0; --changes) {
      const auto at = static_cast<size_t>(rng.uniform_int(0, std::ssize(changed) - 1));
      if (n % 5 == 0) {
        changed.resize(at + 1);
      } else if (std::isdigit(changed[at]) != 0) {
        changed[at] = static_cast<char>('0' + n % 10);
      } else if (n % 5 == 1) {
        changed[at] = static_cast<char>(changed[at] ^ (1 << n % 7));
      }
    }
    write_file_atomic(plan, changed);
    const CommandResult r = heddle_command(run + plan);
    ASSERT_TRUE(r.status == 0 || r.status == 2) << r.status << r.err << changed;
    (r.status == 0 ? taken : refused) += 1;
    if (r.status == 0) {
      EXPECT_NEAR(output(r), want, 2e-3 * std::abs(want)) << r.err << changed;
    } else {
      EXPECT_THAT(r.err, AllOf(HasSubstr(plan), HasSubstr("help:"))) << changed;
    }
  }
  EXPECT_GT(refused, 5);
  EXPECT_GT(taken, 5);
}

TEST_F(PlanCommands, AreShownComparedCheckedAndMerged) {
  const NetworkPlan whole = made();
  NetworkPlan part = whole;
  part.nodes[0].schedule = {};
  part.nodes[0].proof = PlanProof::None;
  const std::string a = file("a.heddle"), b = file("b.heddle"), c = file("c.heddle");
  save_plan(whole, a);
  save_plan(part, b);
  EXPECT_THAT(heddle_command("plan show " + b).out,
              AllOf(HasSubstr(whole.nodes[0].name), HasSubstr("rule"), HasSubstr("race of 9")));
  EXPECT_EQ(heddle_command("plan diff " + a + " " + a).status, 0);
  const CommandResult diff = heddle_command("plan diff " + a + " " + b);
  EXPECT_EQ(diff.status, 1);
  EXPECT_EQ(count(diff.out, "\n"), 1) << diff.out;
  EXPECT_EQ(heddle_command("plan merge " + a + " " + b + " -o " + c).status, 0);
  EXPECT_EQ(read_file(c), read_file(a));
  const CommandResult check = heddle_command("plan check " + a);
  EXPECT_EQ(check.status, 0) << check.out << check.err;
  const CommandResult threads = heddle_command("plan check " + a + " --threads 2");
  EXPECT_EQ(threads.status, 1);
  EXPECT_THAT(threads.out, HasSubstr("this is for 2"));
  EXPECT_EQ(heddle_command("plan show " + file("none.heddle")).status, 2);
}

TEST_F(PlanCommands, DeployMakesAFolderThatASecondCallGoesOnFrom) {
  const std::string folder = file("out");
  const std::string deploy =
      "deploy " + file("digits.onnx") + ":batch=1 --threads 1 --budget 3s -o " + folder;
  const CommandResult first = heddle_command(deploy);
  // 1: on a slow machine there was no time to measure, and the library has the rules' choices.
  EXPECT_LE(first.status, 1) << first.out << first.err;
  EXPECT_THAT(first.out, HasSubstr("the library was checked")) << first.err;
  for (const char* name : {"libdigits.so", "digits.h", "digits.weights", "digits.heddle",
                           "digits.jsonl", "report.html"})
    EXPECT_TRUE(std::filesystem::exists(folder + "/" + name)) << name;
  const NetworkPlan plan = load_plan(folder + "/digits.heddle");
  EXPECT_EQ(plan.model, "../digits.onnx:batch=1");
  const CommandResult run = heddle_command("run " + folder + "/digits.heddle --time 0");
  EXPECT_EQ(run.status, 0) << run.err;
  // Another version of the model, with nodes that are declared alike and others.
  const std::string newer =
      "deploy " + file("digits.onnx") + ":batch=2 --threads 1 --budget 3s -o " + folder;
  const CommandResult second = heddle_command(newer);
  EXPECT_LE(second.status, 1) << second.out << second.err;
  EXPECT_THAT(second.out, HasSubstr("the library was checked")) << second.err;
  EXPECT_EQ(load_plan(folder + "/digits.heddle").model, "../digits.onnx:batch=2");
  EXPECT_EQ(heddle_command("deploy matmul:8x8x8 -o " + folder).status, 2);
}

TEST_F(PlanCommands, RetuneRacesWhatIsThere) {
  const std::string a = file("a.heddle"), b = file("b.heddle");
  save_plan(made(), a);
  EXPECT_EQ(heddle_command("plan retune " + a + " --threads 2 --budget 2s").status, 2)
      << "without -o";
  const CommandResult r = heddle_command("plan retune " + a + " --threads 2 --budget 20s -o " + b);
  ASSERT_EQ(r.status, 0) << r.out << r.err;
  const NetworkPlan plan = load_plan(b);
  EXPECT_EQ(plan.target.cores, 2);
  EXPECT_EQ(plan.nodes.size(), made().nodes.size());
  EXPECT_THAT(plan.nodes,
              ::testing::Contains(::testing::Field(&PlannedNode::proof, PlanProof::Race)));
  // It says what it kept, and what the others became.
  const int nodes = static_cast<int>(plan.nodes.size());
  EXPECT_THAT(r.out,
              HasSubstr("kept the choices of " + std::to_string(nodes - count(r.out, "\n  ")) +
                        " of " + std::to_string(nodes) + " nodes\n"));
}

TEST_F(PlanCommands, WhatWasTunedOnOneThreadIsRetunedForTwo) {
  const std::string one = file("digits.heddle"), two = file("two.heddle"), log = file("log.jsonl");
  const CommandResult tuned = heddle_command(
      "tune " + model() + " --threads 1 --budget 10s --trials 20 -q -o " + one + " --log " + log);
  ASSERT_EQ(tuned.status, 0) << tuned.err;
  std::filesystem::remove(log);
  const std::string run = "run " + model() + " --threads 2 --time 0",
                    all = std::to_string(load_plan(one).nodes.size()) + " nodes";
  EXPECT_THAT(heddle_command(run).err, HasSubstr("it was made for 1 thread, and this is for 2"));
  const CommandResult r =
      heddle_command("plan retune " + one + " --threads 2 --budget 20s -o " + two);
  ASSERT_EQ(r.status, 0) << r.out << r.err;
  EXPECT_THAT(r.out, HasSubstr(" of " + all + "\n"));
  // Nothing is said against it there.
  const CommandResult there = heddle_command(run + " --plan " + two);
  EXPECT_EQ(there.status, 0) << there.err;
  EXPECT_THAT(there.err, AllOf(HasSubstr(" of " + all), Not(HasSubstr(";"))));
  EXPECT_EQ(heddle_command("plan check " + two + " --threads 2").status, 0);
}

}  // namespace
}  // namespace heddle

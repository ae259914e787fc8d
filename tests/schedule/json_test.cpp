// Schedules as JSON: exact round trips for what the templates write, and Errors (never a crash or
// an endless allocation) for damaged text.
#include "heddle/support/rng.h"
#include "schedule/schedule_testing.h"

namespace heddle::testing {
namespace {

struct Named {
  std::string name;
  std::vector<Tensor> outputs;
};

std::vector<Named> programs() {
  std::vector<Named> out;
  out.push_back({"matmul", {ops::matmul(placeholder({40, 33}), placeholder({33, 50}))}});
  ops::Conv at;
  at.padding = {1, 1};
  Tensor x = placeholder({1, 8, 14, 14}), w = constant_placeholder({16, 8, 3, 3});
  out.push_back({"conv", {ops::relu(ops::conv2d(x, w, at, placeholder({16})))}});
  out.push_back({"softmax", {ops::softmax(placeholder({20, 100}))}});
  out.push_back({"argmax", {ops::argmax(placeholder({20, 100}))}});
  out.push_back({"transpose", {ops::transpose(placeholder({30, 70}), {1, 0})}});
  return out;
}

// Configs that between them take every value of every knob, the illegal ones left out.
std::vector<Config> every_value(const Template& t) {
  std::vector<Config> out{t.default_config()};
  for (size_t k = 0; k < t.knobs().size(); ++k) {
    for (int64_t v : t.knobs()[k].values) {
      Config c = t.default_config();
      c.values[k] = v;
      if (t.why_invalid(c).empty()) out.push_back(c);
    }
  }
  return out;
}

TEST(ScheduleJson, EveryKnobValueOfEveryTemplateRoundTrips) {
  Target target = Target::host();
  target.cores = 2;
  for (const Named& p : programs()) {
    Template t = make_template(ComputeDag(p.outputs), target);
    int n = 0;
    for (const Config& c : every_value(t)) {
      Schedule s = t.instantiate(c);
      Json json = s.to_json();
      Schedule back = Schedule::from_json(Json::parse(json.dump()), s.dag());
      ASSERT_EQ(back.to_json().dump(), json.dump()) << p.name;
      ASSERT_EQ(back.to_text(), s.to_text()) << p.name;
      // Lowering is the dear part: the default and every fifth.
      if (n++ % 5 == 0) {
        ASSERT_EQ(lowered(back), lowered(s)) << p.name << " " << t.config_to_json(c).dump();
      }
    }
  }
}

// Rows divided by their sums.
struct Shares {
  Tensor x, total, y;
  Shares() {
    x = placeholder({6, 10}, f32, "x");
    const Axis k = reduce_axis(10, "k");
    total = compute({6}, [&](Axis i) { return sum(x(i, k), k); }, "total");
    y = compute({6, 10}, [&](Axis i, Axis j) { return x(i, j) / total(i); }, "y");
  }
};

// Written by Heddle when two steps still had other names.
TEST(ScheduleJson, SchedulesFromBeforeStepsWereRenamedReplay) {
  const Shares p;
  const Schedule old = Schedule::from_json(
      Json::parse(R"({"v":1,"steps":[["compute_at",1,[4],[],[]],["overlap",2,[4],[],[]],)"
                  R"(["split_whole",2,[5],[4],[6,7]],["vectorize",2,[7],[],[]]],)"
                  R"("target":"llvm -mcpu=znver3","provenance":"default: serial loops"})"),
      ComputeDag({p.y}));
  Schedule now({p.y}, Target::parse("llvm -mcpu=znver3"));
  now[p.total].compute_at(now[p.y], now[p.y].axis(0));
  now[p.y].software_pipeline(now[p.y].axis(0));
  const auto [o, i] = now[p.y].split(now[p.y].axis(1), 4, TailStrategy::PredicateStores);
  now[p.y].vectorize(i);
  EXPECT_EQ(old.to_text(), now.to_text());
  EXPECT_EQ(old.to_json().dump(), now.to_json().dump());
  EXPECT_EQ(lowered(old), lowered(now));
  EXPECT_NE(now.to_text().find("y.split(j, 4, predicate_stores) -> j.o, j.i"), std::string::npos)
      << now.to_text();
  EXPECT_EQ(Schedule::from_json(now.to_json(), now.dag()).to_text(), now.to_text());
}

TEST(ScheduleJson, NoOtherTailStrategyIsRead) {
  const Shares p;
  EXPECT_NE(error_of([&] {
              Schedule::from_json(Json::parse(R"({"v":1,"steps":[["split",2,[5],[4,2],[6,7]]]})"),
                                  ComputeDag({p.y}));
            }).find("there is no tail strategy 2"),
            std::string::npos);
  for (const char* step : {R"(["split",2,[5],[],[6,7]])", R"(["split",2,[5],[4,1,1],[6,7]])",
                           R"(["split_whole",2,[5],[4,1],[6]])"}) {
    const std::string text = R"({"v":1,"steps":[)" + std::string(step) + "]}";
    EXPECT_NE(error_of([&] { Schedule::from_json(Json::parse(text), ComputeDag({p.y})); }),
              "no error")
        << step;
  }
}

// Records name the version of their template; this one is from before names changed.
TEST(ScheduleJson, TheVersionOfATemplateOutlivesNewNames) {
  const Shares p;
  TemplateBuilder b(ComputeDag({p.y}), Target::parse("llvm -mcpu=znver3"));
  const Param factor = b.knob("factor", {2, 4}, 4);
  const Param order = b.kind("order", {"serial", "parallel"}, "serial");
  b.alias(order, "mode");
  b.when(order, "parallel", [&] { b[p.y].parallel(b[p.y].axis(0)); });
  b[p.total].compute_at(b[p.y], b[p.y].axis(0));
  b[p.y].software_pipeline(b[p.y].axis(0));
  b[p.y].split(b[p.y].axis(1), factor, TailStrategy::PredicateStores);
  b[p.y].split(b[p.y].axis(0), 2);
  EXPECT_EQ(b.finish("mine").fingerprint(), 0xfcda05116d83ce3eU);
}

TEST(ScheduleJson, AReplayedScheduleCanBeGoneOnWith) {
  Chain p;
  Schedule s({p.C});
  s[p.C].split(s[p.C].axis(0), 4);
  StageRef local = s[p.C].cache_write();
  Schedule back = Schedule::from_json(s.to_json(), s.dag());
  EXPECT_EQ(back[p.C].num_reduce_axes(), 0);
  for (Schedule* x : {&s, &back}) {
    StageRef l = x->stage(local.id());
    l.split(l.reduce_axis(0), 3);
    x->stage(1).cache_read({l});
  }
  EXPECT_EQ(back.to_json().dump(), s.to_json().dump());
  EXPECT_EQ(lowered(back), lowered(s));
}

std::string error_of_json(const std::string& text) {
  Pair p;
  ComputeDag dag({p.C});
  return error_of([&] { Schedule::from_json(Json::parse(text), dag); });
}

TEST(ScheduleJson, ErrorsSayWhichStepAndWhy) {
  EXPECT_EQ(error_of_json("[]"), R"(this is no schedule of version 1
  help: expected {"v": 1, "steps": [...]})");
  EXPECT_EQ(error_of_json(R"({"v": 2, "steps": []})"), R"(this is no schedule of version 1
  help: expected {"v": 1, "steps": [...]})");
  EXPECT_EQ(error_of_json(R"({"v": 1, "steps": [["split", 2, [4], [2]]]})"),
            R"(step 0 of the schedule does not have five parts
  help: a step is [kind, stage, [axes], [params], [results]])");
  EXPECT_EQ(error_of_json(R"({"v": 1, "steps": [["unroll", 2, [4], [], [], "mma"]]})"),
            R"(step 0 of the schedule does not have five parts
  help: a step is [kind, stage, [axes], [params], [results]])");
  EXPECT_EQ(error_of_json(R"({"v": 1, "steps": [["spilt", 2, [4], [2], [6, 7]]]})"),
            R"(step 0 of the schedule has the unknown kind 'spilt'
  help: a step is [kind, stage, [axes], [params], [results]])");
  EXPECT_EQ(error_of_json(R"({"v": 1, "steps": [["unroll", 2, [4], [], []],
                                                ["split", 2, [5], [0], [6, 7]]]})"),
            R"(step 1 of the schedule: cannot apply split to stage 'C': the factor 0 is not positive
  loops: unrolled i 0..8 | j 0..12)");
  EXPECT_EQ(error_of_json(R"({"v": 1, "steps": [["split", 2, [4], [2], [6]]]})"),
            "step 0 of the schedule: cannot apply split to stage 'C': the step has 1 results "
            "in place of 2\n"
            "  loops: i 0..8 | j 0..12");
  EXPECT_EQ(
      error_of_json(R"({"v": 1, "steps": [["split", 2, [4, -1], [2], [6, 7]]]})"),
      R"(step 0 of the schedule: cannot apply split to stage 'C': the step has 2 axes in place of 1
  loops: i 0..8 | j 0..12)");
  EXPECT_EQ(error_of_json(R"({"v": 1, "steps": [["split", 2, [4], [2], [5, 7]]]})"),
            R"(step 0 of the schedule: cannot apply split to stage 'C': result id 5 is taken
  loops: i 0..8 | j 0..12)");
  EXPECT_EQ(error_of_json(R"({"v": 1, "steps": [["split", 2, [4], [2], [6, 1000000]]]})"),
            R"(step 0 of the schedule: cannot apply split to stage 'C': bad result id 1000000
  loops: i 0..8 | j 0..12)");
  EXPECT_EQ(error_of_json(R"({"v": 1, "steps": [["split", 4294967298, [4], [2], [6, 7]]]})"),
            R"(step 0 of the schedule has the id 4294967298
  help: a step is [kind, stage, [axes], [params], [results]])");
  EXPECT_EQ(error_of_json(R"({"v": 1, "steps": [["cache_write", 2, [], [], [3, 6]]]})"),
            "step 0 of the schedule: cannot apply cache_write to stage 'C': the step has 2 "
            "results in place of 3\n"
            "  loops: i 0..8 | j 0..12");
  EXPECT_EQ(error_of_json(R"({"v": 1, "steps": [["cache_read", 1, [], [3], [3, 6, 7]]]})"),
            R"(step 0 of the schedule: cannot apply cache_read to stage 'B': there is no such reader
  loops: i 0..8 | j 0..12)");
  EXPECT_EQ(
      error_of_json(R"({"v": 1, "steps": [["layout", 1, [],
            [0, 1, 0, 1, 4611686018427387904, 0, 1, 1, 4611686018427387904], []]]})"),
      R"(step 0 of the schedule: cannot apply layout to stage 'B': divisor or modulus is too large
  loops: i 0..8 | j 0..12)");
}

// Either an Error of the user's kind, or a schedule that prints, lowers or refuses to.
std::string survives(const std::string& text, const ComputeDag& dag) {
  try {
    Schedule s = Schedule::from_json(Json::parse(text), dag);
    s.to_text();
    Schedule::from_json(s.to_json(), dag);
    lower(s, all_args(dag));
  } catch (const Error& e) {
    if (e.kind == ErrorKind::Internal) return e.what();
  }
  return "";
}

TEST(ScheduleJson, TruncatedTextGivesErrors) {
  Chain p;
  Schedule s({p.D});
  s[p.D].split(s[p.D].axis(0), 4);
  s[p.C].cache_write();
  const std::string text = s.to_json().dump();
  for (size_t n = 0; n < text.size(); ++n) {
    EXPECT_NE(error_of([&] { Schedule::from_json(Json::parse(text.substr(0, n)), s.dag()); }),
              "no error")
        << n;
  }
}

TEST(ScheduleJson, EveryNumberReplacedByEveryNastyOneIsAnErrorOrALegalSchedule) {
  Chain p;
  ComputeDag dag({p.D});
  Schedule s(dag);
  StageRef c = s[p.C], d = s[p.D];
  auto [io, ii] = d.split(d.axis(0), 4);
  d.reorder({ii, io});
  Loop f = d.fuse(ii, io);
  d.parallel(f);
  c.compute_at(d, f);
  StageRef rf = c.rfactor(c.reduce_axis(0), 4, true);
  rf.layout({{1}, {2, 4}, {0}, {2, 1, 4}});
  rf.vectorize(rf.axis(2));
  s[p.A].cache_read({rf});
  d.cache_write().store_nontemporal().expect(Instruction::DotProduct);
  const std::string text = s.to_json().dump();
  ASSERT_EQ(survives(text, dag), "");
  const char* nasty[] = {"-1",
                         "0",
                         "1",
                         "2",
                         "3",
                         "5",
                         "9",
                         "100",
                         "65535",
                         "2147483647",
                         "4294967296",
                         "-9223372036854775808",
                         "9223372036854775807",
                         "1.5",
                         "null",
                         "\"x\"",
                         "[]",
                         "{}",
                         "true"};
  auto digit = [&](size_t i) { return text[i] >= '0' && text[i] <= '9'; };
  int tried = 0;
  const size_t end = text.find("provenance");
  for (size_t i = 0; i < end; ++i) {
    if (!digit(i) || digit(i - 1)) continue;
    size_t j = i;
    while (digit(j)) ++j;
    for (const char* n : nasty) {
      std::string damaged = text.substr(0, i) + n + text.substr(j);
      EXPECT_EQ(survives(damaged, dag), "") << damaged;
      ++tried;
    }
  }
  EXPECT_GT(tried, 500);
}

TEST(ScheduleJson, StepsThatAreLeftOutDoubledOrSwappedAreAnErrorOrALegalSchedule) {
  for (const Named& p : programs()) {
    ComputeDag dag(p.outputs);
    Template t = make_template(dag, Target::host());
    Json json = t.instantiate(t.default_config()).to_json();
    const std::vector<Json> steps = json.at("steps").elements();
    auto with = [&](const std::vector<Json>& changed) {
      Json out = json;
      out["steps"] = Json::array_of(changed);
      EXPECT_EQ(survives(out.dump(), dag), "") << p.name << " " << out.dump();
    };
    for (size_t i = 0; i < steps.size(); i += 2) {
      std::vector<Json> less = steps, more = steps, swapped = steps;
      less.erase(less.begin() + static_cast<std::ptrdiff_t>(i));
      with(less);
      more.insert(more.begin() + static_cast<std::ptrdiff_t>(i), steps[i]);
      with(more);
      std::swap(swapped[i], swapped[steps.size() - 1 - i]);
      with(swapped);
    }
  }
}

TEST(ScheduleJson, TheScheduleOfAnotherProgramIsAnErrorOrALegalSchedule) {
  std::vector<Named> all = programs();
  for (const Named& from : all) {
    ComputeDag dag(from.outputs);
    Template t = make_template(dag, Target::host());
    std::string text = t.instantiate(t.default_config()).to_json().dump();
    for (const Named& to : all) {
      EXPECT_EQ(survives(text, ComputeDag(to.outputs)), "") << from.name << " on " << to.name;
    }
  }
}

}  // namespace
}  // namespace heddle::testing

// Templates: knobs, legality, configs as JSON, alternatives, the registry and the cache.
#include <gmock/gmock.h>

#include "heddle/support/rng.h"
#include "schedule/schedule_testing.h"

namespace heddle::testing {
namespace {

TEST(Template, TheRegistryHoldsExactlyThoseThatShip) {
  EXPECT_EQ(meta_template_names(), (std::vector<std::string>{"complex_reduction",
                                                             "computed_matrix",
                                                             "cuda_attention",
                                                             "cuda_combined_scatter",
                                                             "cuda_complex_reduction",
                                                             "cuda_computed_matrix",
                                                             "cuda_direct_compute",
                                                             "cuda_location_tunable",
                                                             "cuda_naive",
                                                             "cuda_row_program",
                                                             "cuda_scan",
                                                             "cuda_scatter",
                                                             "cuda_simple_reduction",
                                                             "cuda_sliding_window",
                                                             "cuda_tensor_core",
                                                             "cuda_tile_transform",
                                                             "direct_compute",
                                                             "location_tunable",
                                                             "no_elements",
                                                             "scan",
                                                             "scatter",
                                                             "simple_reduction",
                                                             "tile_product",
                                                             "tile_transform"}));
}

TEST(Template, KnobsAreSortedDeduplicatedAndHoldTheChosenValue) {
  Pair p;
  TemplateBuilder b(ComputeDag({p.C}), Target::host());
  b.knob("tile", {8, 2, 8, 4}, 3, "because");
  b.choice("flag", true);
  b.split_knob("split", 12, 8, 100);
  Template t = b.finish("mine");
  ASSERT_EQ(t.knobs().size(), 3u);
  EXPECT_EQ(t.knobs()[0].values, (std::vector<int64_t>{2, 3, 4, 8}));
  EXPECT_EQ(t.knobs()[0].default_value, 3);
  EXPECT_EQ(t.knobs()[0].reason, "because");
  EXPECT_EQ(t.knobs()[1].values, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(t.knobs()[1].default_value, 1);
  // Powers of two and divisors up to the limit; the choice is clamped to the extent.
  EXPECT_EQ(t.knobs()[2].values, (std::vector<int64_t>{1, 2, 3, 4, 6, 8, 12}));
  EXPECT_EQ(t.knobs()[2].default_value, 12);
  EXPECT_EQ(t.space_size(), 4 * 2 * 7);
  EXPECT_EQ(t.knob_index("flag"), 1);
  EXPECT_EQ(t.knob_index("nothing"), -1);
  EXPECT_EQ(t.default_config().values, (std::vector<int64_t>{3, 1, 12}));
  EXPECT_EQ(t.name(), "mine");
}

TEST(Template, TwoKnobsOfOneNameAreABugOfTheTemplate) {
  Pair p;
  TemplateBuilder b(ComputeDag({p.C}), Target::host());
  b.choice("flag", true);
  EXPECT_EQ(error_of([&] { b.choice("flag", true); }).substr(0, 8), "INTERNAL");
}

TEST(Template, WhyInvalidSaysWhichKnobOrRequirement) {
  Pair p;
  TemplateBuilder b(ComputeDag({p.C}), Target::host());
  Param x = b.knob("x", {1, 2, 4}, 2), y = b.knob("y", {1, 2, 4}, 2);
  b.require("x*y must be at most 8",
            [x, y](const TemplateBuilder::Value& v) { return v(x) * v(y) <= 8; });
  Template t = b.finish("mine");
  EXPECT_EQ(t.why_invalid({{2, 2}}), "");
  EXPECT_EQ(t.why_invalid({{2}}), "it has 1 values for 2 knobs");
  EXPECT_EQ(t.why_invalid({{2, 3}}), "knob 'y' cannot be 3");
  EXPECT_EQ(t.why_invalid({{4, 4}}), "x*y must be at most 8");
  EXPECT_EQ(error_of([&] { t.instantiate({{4, 4}}); }),
            R"(this config is not legal for template 'mine': x*y must be at most 8)");
}

TEST(Template, KnobsOfTasksAreTheLastCutsOfParallelLoops) {
  Pair p;
  TemplateBuilder b(ComputeDag({p.C}), Target::host());
  StageRef c = b.stage(2);
  const Param tile = b.knob("tile", {1, 2}, 2), block = b.knob("block", {1, 2, 4}, 2),
              flag = b.choice("flag", true);
  const auto [tiles, row] = c.split(c.axis(0), tile);
  const auto [blocks, tile_of_block] = c.split(tiles, block);
  b.when(flag, 1, [&] { c.parallel(blocks); });
  const Template by_blocks = b.finish("mine");
  EXPECT_EQ(by_blocks.task_knobs(), (std::vector<size_t>{1}));

  TemplateBuilder vectors(ComputeDag({p.C}), Target::host());
  StageRef v = vectors.stage(2);
  const Param lanes = vectors.knob("lanes", {4, 8}, 8), rows = vectors.knob("rows", {1, 2}, 2);
  const auto [outer, lane] = v.split(v.axis(-1), lanes);
  const auto [row_block, in_block] = v.split(v.axis(0), rows);
  v.reorder({row_block, outer, in_block, lane});
  v.vectorize(lane);
  v.parallel(v.fuse({row_block, outer}));
  EXPECT_EQ(vectors.finish("mine").task_knobs(), (std::vector<size_t>{1}))
      << "the other parallel loop has whole vectors";
}

TEST(Template, KnobsOfTasksOfAProduct) {
  const Tensor product =
      ops::matmul(placeholder({256, 256}, f32, "A"), placeholder({256, 256}, f32, "B"));
  const Template t =
      make_template(ComputeDag({product}), Target::parse("llvm -mcpu=haswell -threads=4"));
  std::vector<std::string> names;
  for (const size_t k : t.task_knobs()) names.push_back(t.knobs()[k].name);
  EXPECT_THAT(names,
              ::testing::UnorderedElementsAre("row_block_tiles", "col_block_tiles", "k_part"));
}

TEST(Template, ConfigsRoundTripThroughJson) {
  Pair p;
  TemplateBuilder b(ComputeDag({p.C}), Target::host());
  b.knob("x", {1, 2, 4}, 2);
  b.choice("y", false);
  Template t = b.finish("mine");
  Config c{{4, 1}};
  EXPECT_EQ(t.config_to_json(c).dump(), R"({"x":4,"y":1})");
  EXPECT_EQ(t.config_from_json(t.config_to_json(c)), c);
  // What is left out has its default.
  EXPECT_EQ(t.config_from_json(Json::parse(R"({"y": 1})")), (Config{{2, 1}}));
  EXPECT_EQ(error_of([&] { t.config_from_json(Json::parse(R"({"z": 1})")); }),
            R"(template 'mine' has no knob 'z')");
  EXPECT_EQ(error_of([&] { t.config_from_json(Json::parse(R"({"x": 3})")); }),
            R"(this config is not legal for template 'mine': knob 'x' cannot be 3)");
  EXPECT_NE(error_of([&] { t.config_from_json(Json::parse(R"({"x": "3"})")); }), "no error");
  EXPECT_NE(error_of([&] { t.config_from_json(Json::parse("[3]")); }), "no error");
}

TEST(Template, KnobsOfKindsAreNamedInConfigsAndTexts) {
  Pair p;
  TemplateBuilder b(ComputeDag({p.C}), Target::host());
  const std::vector<std::string> labels = {"whole", "k_blocked", "split_k"};
  const Param reduction = b.kind("reduction", labels, "split_k", "few rows", {"whole", "split_k"});
  b.kind("order", {"rows", "columns"}, 0);
  b.when(reduction, "split_k", [&] { b[p.C].parallel(b[p.C].axis(0)); });
  EXPECT_EQ(b.value_of(reduction, "k_blocked"), 1);
  EXPECT_EQ(error_of([&] { b.value_of(reduction, "half"); }).substr(0, 8), "INTERNAL");
  EXPECT_EQ(error_of([&] { b.kind("bad", labels, "half"); }).substr(0, 8), "INTERNAL");
  EXPECT_EQ(error_of([&] { b.kind("bad", labels, 3); }).substr(0, 8), "INTERNAL");
  const Template t = b.finish("mine");
  EXPECT_EQ(t.knobs()[0].values, (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(t.knobs()[1].values, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(t.default_config(), (Config{{2, 0}}));
  EXPECT_EQ(t.config_to_json({{2, 1}}).dump(), R"({"reduction":"split_k","order":"columns"})");
  EXPECT_EQ(t.config_from_json(t.config_to_json({{0, 1}})), (Config{{0, 1}}));
  EXPECT_EQ(t.why_invalid({{1, 0}}), "knob 'reduction' cannot be k_blocked");
  EXPECT_EQ(t.why_invalid({{7, 0}}), "knob 'reduction' cannot be 7");
  EXPECT_EQ(error_of([&] { t.config_from_json(Json::parse(R"({"reduction":"half"})")); }),
            "knob 'reduction' cannot be \"half\"\n  help: it is one of: whole, split_k");
  EXPECT_NE(error_of([&] { t.config_from_json(Json::parse(R"({"reduction":true})")); }),
            "no error");
  const std::string text = t.to_text();
  EXPECT_NE(text.find("knob reduction = split_k  of {whole, split_k}  # few rows"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("[reduction=split_k] C.parallel"), std::string::npos) << text;
  EXPECT_EQ(t.knobs()[0].parse("split_k"), 2);
  EXPECT_EQ(t.knobs()[0].parse("2"), 2);
  EXPECT_EQ(t.knobs()[0].parse("2x"), std::nullopt);
}

TEST(Template, ConfigsFromBeforeAKnobWasRenamedReplay) {
  Pair p;
  const std::vector<std::string> labels = {"whole", "k_blocked", "split_k"};
  auto made = [&](bool renamed) {
    TemplateBuilder b(ComputeDag({p.C}), Target::host());
    b.begin_part("mine", "g1.");
    if (renamed) {
      b.alias(b.kind("reduction", labels, "whole"), "mode");
    } else {
      b.knob("mode", {0, 1, 2}, 0);
    }
    const Param factor = b.knob("tile", {2, 4}, 2);
    b[p.C].split(b[p.C].axis(0), factor);
    return b.finish("mine");
  };
  const Template before = made(false), now = made(true);
  // The version of a template is that of its records.
  EXPECT_EQ(now.fingerprint(), before.fingerprint());
  EXPECT_EQ(now.knob_index("g1.mode"), now.knob_index("g1.reduction"));
  const Config config = now.config_from_json(Json::parse(R"({"g1.mode":2,"g1.tile":4})"));
  EXPECT_EQ(config, (Config{{2, 4}}));
  EXPECT_EQ(now.config_to_json(config).dump(), R"({"g1.reduction":"split_k","g1.tile":4})");
  EXPECT_EQ(error_of([&] {
              now.config_from_json(Json::parse(R"({"g1.mode":2,"g1.reduction":"whole"})"));
            }),
            "the config names knob 'g1.reduction' twice, once as 'g1.reduction'");
  TemplateBuilder b(ComputeDag({p.C}), Target::host());
  b.choice("flag", true);
  const Param other = b.choice("other", true);
  EXPECT_EQ(error_of([&] { b.alias(other, "flag"); }).substr(0, 8), "INTERNAL");
}

TEST(Template, AlternativesDoNotSeeEachOthersChanges) {
  Chain p;
  TemplateBuilder b(ComputeDag({p.C}), Target::host());
  StageRef c = b[p.C];
  Param how = b.knob("how", {0, 1, 2}, 0);
  Loop k = c.reduce_axis(0);
  b.when(how, 1, [&] {
    StageRef local = c.cache_write();
    EXPECT_EQ(c.num_reduce_axes(), 0);
    EXPECT_EQ(local.num_reduce_axes(), 1);
    local.compute_at(c, c.axis(0));
  });
  EXPECT_EQ(c.num_reduce_axes(), 1);
  b.when(how, 2, [&] {
    EXPECT_EQ(c.reduce_axis(0), k);
    StageRef rf = c.rfactor(k, 2, false);
    EXPECT_NE(c.reduce_axis(0), k);
    rf.compute_at(c, c.axis(1));
  });
  EXPECT_EQ(c.reduce_axis(0), k);
  c.parallel(c.axis(0));
  Template t = b.finish("mine");
  auto loops_for = [&](int64_t how_value) {
    Schedule s = t.instantiate({{how_value}});
    std::string text;
    for (const StageState& st : s.state().stages) {
      if (st.defined() && !st.placeholder)
        text += st.name + ": " + s.state().loops_text(s.state().stage_of(st.buffers[0])) + "\n";
    }
    lower(s, all_args(s.dag()));
    return text;
  };
  EXPECT_EQ(loops_for(0), "C: parallel i 0..8 | j 0..12 | reduce k 0..6\n");
  EXPECT_EQ(loops_for(1),
            "C: parallel i 0..8 | j 0..12\nC.local: i 0..8 | j 0..12 | reduce k 0..6\n");
  EXPECT_EQ(loops_for(2),
            "C: parallel i 0..8 | j 0..12 | reduce k.o 0..3\n"
            "C.rf: k.o 0..3 | i 0..8 | j 0..12 | reduce k.i 0..2\n");
  // A stage id that an alternative left out stays free in the JSON of the others.
  Schedule s = t.instantiate({{2}});
  EXPECT_EQ(lowered(Schedule::from_json(s.to_json(), s.dag())), lowered(s));
}

TEST(Template, WhenNests) {
  Pair p;
  TemplateBuilder b(ComputeDag({p.C}), Target::parse("llvm -mcpu=haswell -threads=2"));
  StageRef c = b[p.C];
  Param x = b.choice("x", true), y = b.choice("y", true);
  b.when(x, 1, [&] {
    c.parallel(c.axis(0));
    b.when(y, 1, [&] { c.vectorize(c.axis(1)); });
  });
  Template t = b.finish("mine");
  auto text = [&](int64_t vx, int64_t vy) {
    Schedule s = t.instantiate({{vx, vy}});
    return loops(s, s[p.C]);
  };
  EXPECT_EQ(text(0, 0), "i 0..8 | j 0..12");
  EXPECT_EQ(text(0, 1), "i 0..8 | j 0..12");
  EXPECT_EQ(text(1, 0), "parallel i 0..8 | j 0..12");
  EXPECT_EQ(text(1, 1), "parallel i 0..8 | vectorized j 0..12");
  EXPECT_EQ(t.to_text(), R"(template mine for llvm -mcpu=haswell -threads=2
  knob x = 1  of {0, 1}
  knob y = 1  of {0, 1}
  [x=1] C.parallel(i)
  [x=1] [y=1] C.vectorize(j)
)");
}

TEST(Template, TheSameStructureWithOtherTensorsHasTheSameTemplate) {
  auto declare = [](const std::string& name) {
    Tensor a = placeholder({40, 30}, f32, name + "a"), b = placeholder({30, 50}, f32, name + "b");
    return ops::relu(ops::matmul(a, b));
  };
  Tensor one = declare("one"), two = declare("two");
  Template s = make_template(ComputeDag({one}), Target::host());
  Template t = make_template(ComputeDag({two}), Target::host());
  ASSERT_EQ(s.knobs().size(), t.knobs().size());
  for (size_t k = 0; k < s.knobs().size(); ++k) {
    EXPECT_EQ(s.knobs()[k].name, t.knobs()[k].name);
    EXPECT_EQ(s.knobs()[k].values, t.knobs()[k].values);
  }
  EXPECT_EQ(s.name(), t.name());
  EXPECT_TRUE(t.dag().outputs()[0].same_as(two));
  // Each lowers with its own arguments.
  lower(s.instantiate(s.default_config()), all_args(s.dag()));
  lower(t.instantiate(t.default_config()), all_args(t.dag()));
  // Written anew, it has the same knobs.
  clear_template_cache();
  Template again = make_template(ComputeDag({two}), Target::host());
  EXPECT_EQ(again.config_to_json(again.default_config()).dump(),
            s.config_to_json(s.default_config()).dump());
}

TEST(Template, StagesWithoutNamesOfTheirOwnAreToldApart) {
  // Two statistics a row, both called "compute": their knobs must not clash.
  Tensor x = placeholder({64, 100});
  Axis a = reduce_axis(100), b = reduce_axis(100);
  Tensor lo = compute({64}, [&](Axis i) { return min(x(i, a), a); });
  Tensor hi = compute({64}, [&](Axis i) { return max(x(i, b), b); });
  Tensor y =
      compute({64, 100}, [&](Axis i, Axis j) { return (x(i, j) - lo(i)) / (hi(i) - lo(i)); });
  EXPECT_EQ(error_of([&] { create_schedule({y}); }), "no error");
}

TEST(Template, KnobNamesDoNotDependOnTheNamesOfTensors) {
  auto knobs = [](const std::string& name) {
    Tensor x = placeholder({64, 100});
    Axis k = reduce_axis(100);
    Tensor hi = compute({64}, [&](Axis i) { return max(x(i, k), k); }, name);
    Tensor y = compute({64, 100}, [&](Axis i, Axis j) { return x(i, j) - hi(i); });
    clear_template_cache();
    Template t = make_template(ComputeDag({y}), Target::host());
    return t.config_to_json(t.default_config()).dump();
  };
  EXPECT_EQ(knobs("one"), knobs("two"));
}

TEST(Template, ATemplateOfTheUsersWinsByPriorityAndGoesAgain) {
  const size_t shipped = meta_template_names().size();
  Pair p;
  register_meta_template({"of_the_test", 5,
                          [](const ComputeDag&, const StageGroup&, const Target&) { return true; },
                          [](TemplateBuilder& t, const StageGroup& g) {
                            t.stage(g.output_stage).unroll(t.stage(g.output_stage).axis(0));
                          }});
  EXPECT_EQ(make_template(ComputeDag({p.C}), Target::host()).name(), "of_the_test");
  EXPECT_EQ(meta_template_names().size(), shipped + 1);
  unregister_meta_template("of_the_test");
  EXPECT_EQ(make_template(ComputeDag({p.C}), Target::host()).name(), "direct_compute");
  EXPECT_EQ(meta_template_names().size(), shipped);
}

// Whatever is wrong with a template, its declaration has a schedule, and the template says why.
TEST(Template, TheNaiveScheduleIsTheLastLinkOfTheChain) {
  Pair p;
  const ComputeDag dag({p.C});
  for (const bool throws : {false, true}) {
    register_meta_template(
        {"never_legal", 5, [](const ComputeDag&, const StageGroup&, const Target&) { return true; },
         [throws](TemplateBuilder& t, const StageGroup&) {
           if (throws) throw_internal_error("a bug of the template");
           t.require("no config is legal", [](const TemplateBuilder::Value&) { return false; });
         }});
    for (const char* target : {"llvm -mcpu=haswell", "cuda -gpu=h100"}) {
      const Template t = make_template(dag, Target::parse(target));
      EXPECT_EQ(t.name(), "naive");
      ASSERT_EQ(t.refusals().size(), 1u);
      EXPECT_EQ(t.refusals()[0].why,
                std::string("the naive schedule is taken: what the rules chose is not legal: ") +
                    (throws ? "a bug of the template" : "no config is legal"));
      EXPECT_EQ(t.static_schedule().to_json().at("steps").dump(),
                naive_schedule({p.C}, Target::parse(target)).to_json().at("steps").dump());
    }
    AutoSchedulerOptions forced;
    forced.force_template = "never_legal";
    EXPECT_NE(error_of([&] { make_template(dag, Target::host(), forced).static_schedule(); }),
              "no error");
    unregister_meta_template("never_legal");
  }
}

}  // namespace
}  // namespace heddle::testing

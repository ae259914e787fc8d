// Audits: what loses time in a network, and what would win it back.
#include "heddle/network/audit.h"

#include "driver/program_args.h"
#include "network/audit/node_bounds.h"
#include "network/network_testing.h"
#include "records/records_testing.h"

namespace heddle::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAreArray;

constexpr const char* kOneThread = "llvm -mcpu=native -threads=1";

/// Every knob at its lowest value, as far as that is legal, and the knobs that differ.
std::pair<Config, std::vector<std::string>> lowest_config(const Template& t) {
  const Config standard = t.default_config();
  Config low = standard;
  for (size_t k = 0; k < low.values.size(); ++k) {
    Config next = low;
    next.values[k] = t.knobs()[k].values.front();
    if (t.why_invalid(next).empty() && t.branch_of(next) == t.branch_of(standard)) low = next;
  }
  std::vector<std::string> knobs;
  for (size_t k = 0; k < low.values.size(); ++k) {
    if (low.values[k] != standard.values[k]) knobs.push_back(t.knobs()[k].name);
  }
  return {low, knobs};
}

TEST(Audit, NamesASlowScheduleOfARecordFirst) {
  const Folder folder;
  const std::string log = folder / "net.jsonl";
  const Target target = Target::parse(kOneThread);
  // The second layer is too small to be like the first.
  const std::vector<Tensor> outputs{
      linear(ops::relu(linear(placeholder({96, 224}, f32, "x"), 160)), 8)};
  const Network rules(outputs, target);
  ASSERT_EQ(rules.tasks().size(), 2u) << rules.to_text();
  const TuneTask& slow = rules.tasks()[0];
  const auto [config, knobs] = lowest_config(slow.tmpl);
  Record planted = make_record(slow.name, slow.tmpl, config);
  planted.seconds = {1e-6};
  planted.verdict = Verdict::Won;
  RecordLog(log).append(planted);
  reload_tophub();

  const Network net(outputs, target, {.record_log = log});
  const Audit found = audit(net, {.profile_seconds = 0.1, .race_seconds = 2});
  ASSERT_EQ(found.rows.size(), 2u);
  const AuditRow& row = found.rows[0];
  EXPECT_EQ(row.name, slow.name) << found;
  EXPECT_THAT(row.provenance, HasSubstr("net.jsonl:1"));
  ASSERT_FALSE(row.changes.empty()) << found;
  EXPECT_EQ(row.changes[0].from, AuditBound::Rules) << found;
  EXPECT_TRUE(row.changes[0].proven) << found;
  EXPECT_THAT(row.changes[0].knobs, UnorderedElementsAreArray(knobs)) << found;
  EXPECT_LT(row.changes[0].after, row.changes[0].before);
  EXPECT_THAT(row.bounds, Contains(::testing::Field(&AuditReference::bound, AuditBound::Rules)));
  EXPECT_THAT(found.to_string(), HasSubstr(row.changes[0].text));

  // The other way about: the rules run, and the record is one of those that they race against.
  const Audit of_rules = audit(net, {.profile_seconds = 0.1, .race_seconds = 1, .rules = true});
  for (const AuditRow& r : of_rules.rows) {
    EXPECT_THAT(r.provenance, HasSubstr("analytic rule")) << of_rules;
    EXPECT_FALSE(r.why.empty());
    for (const AuditChange& c : r.changes) EXPECT_NE(c.from, AuditBound::Record) << of_rules;
  }
}

AuditRow row_of(const std::string& name, double seconds, double flops, double bytes) {
  AuditRow row;
  row.name = name;
  row.template_name = "product";
  row.nodes = {0};
  row.seconds = seconds;
  row.flops = flops;
  row.bytes = bytes;
  return row;
}

TEST(Audit, AKernelOfLikeShapeIsABound) {
  std::vector<AuditRow> rows{row_of("slow", 8, 200, 10), row_of("fast", 1, 100, 5),
                             row_of("large", 1, 20000, 1000), row_of("streams", 1, 100, 100)};
  rows.push_back(row_of("other", 0.1, 200, 10));
  rows.back().template_name = "reduction";
  network::set_bounds(rows);
  ASSERT_EQ(rows[0].bounds.size(), 1u);
  EXPECT_EQ(rows[0].bounds[0].bound, AuditBound::Like);
  EXPECT_EQ(rows[0].bounds[0].source, "fast");
  EXPECT_DOUBLE_EQ(rows[0].bounds[0].seconds, 2);
  EXPECT_DOUBLE_EQ(rows[0].lost_s(), 6);
  for (size_t other = 1; other < rows.size(); ++other) EXPECT_TRUE(rows[other].bounds.empty());
}

TEST(Audit, NoKernelOfLikeShapePromisesMoreThanTheRoof) {
  std::vector<AuditRow> rows{row_of("slow", 8, 200, 10), row_of("fast", 1, 100, 5)};
  rows[0].roof_s = 3;
  network::set_bounds(rows);
  ASSERT_EQ(rows[0].bounds.size(), 2u);
  for (const AuditReference& b : rows[0].bounds) EXPECT_DOUBLE_EQ(b.seconds, 3);
}

TEST(Audit, TheLeastBoundIsFirst) {
  AuditRow row = row_of("row", 8, 1, 1);
  network::add_bound(row, {AuditBound::Record, 6, "of a log"});
  network::add_bound(row, {AuditBound::Roof, 5, ""});
  network::add_bound(row, {AuditBound::Tuned, 9, "is above"});
  ASSERT_EQ(row.bounds.size(), 2u);
  EXPECT_EQ(row.bounds[0].bound, AuditBound::Roof);
  EXPECT_DOUBLE_EQ(row.lost_s(), 3);
}

TEST(Audit, TriedChoicesAreChangesOfTheKernelsThatTheyChange) {
  const Tensor x = placeholder({1, 24, 32}, f32, "x");
  const Network net({attention(x)}, Target::parse(kOneThread));
  const Audit found = audit(net, {.profile_seconds = 0.05, .choice_seconds = 3, .worst = 0});
  ASSERT_FALSE(found.choices.trials.empty());
  for (const AuditRow& row : found.rows) {
    for (const AuditChange& c : row.changes) {
      EXPECT_EQ(c.from, AuditBound::Graph);
      EXPECT_THAT(c.text, HasSubstr("--passes="));
    }
  }
  const Json json = found.to_json();
  EXPECT_GT(json.at("kernels").at(0).at("certificate").at("least_s").as_double(), 0);
  EXPECT_EQ(json.at("kernels").size(), net.tasks().size());
}

TEST(Audit, ARangeIsAuditedAtItsSizes) {
  const Dim rows = dim("rows", 1, 64);
  const Tensor x = placeholder({rows, 48}, f32, "x");
  const auto layer = [&](const Tensor& a, int64_t from, int64_t to) {
    const Tensor w = constant(NDArray::random({from, to}, f32, 3));
    const Axis k = reduce_axis(from, "k");
    const Tensor sums =
        compute({rows, to}, [&](Axis i, Axis j) { return sum(a(i, k) * w(k, j), k); }, "sums");
    return compute({rows, to}, [&](Axis i, Axis j) { return max(sums(i, j), 0.f); }, "layer");
  };
  const Network net({layer(layer(x, 48, 64), 64, 32)}, Target::parse(kOneThread));
  AuditOptions options{.profile_seconds = 0.05, .race_seconds = 0.5};
  EXPECT_THAT(message_of([&] { (void)audit(net, options); }), HasSubstr("rows"));
  options.at = {{rows, 17}};
  const Audit found = audit(net, options);
  EXPECT_THAT(found.sizes, HasSubstr("17"));
  size_t nodes = 0;
  for (const AuditRow& row : found.rows) {
    nodes += row.nodes.size();
    EXPECT_GT(row.seconds, 0) << row.name;
    EXPECT_GT(row.bytes, 0) << row.name;
    EXPECT_FALSE(row.template_name.empty());
    for (const AuditReference& b : row.bounds) EXPECT_LT(b.seconds, row.seconds);
  }
  EXPECT_EQ(nodes, net.nodes().size());
  const Network fixed({linear(placeholder({4, 48}, f32, "x"), 64)});
  EXPECT_THAT(message_of([&] { (void)audit(fixed, options); }), HasSubstr("no dimensions"));
}

TEST(Audit, OtherMachinesAreRefused) {
  const Network net({digits_network()}, Target::parse("cuda -gpu=h200"));
  EXPECT_THAT(message_of([&] { (void)audit(net); }), HasSubstr("do not run on this machine"));
}

// A product of bytes takes less than its multiply-adds would as floats, whatever is done with it.
TEST(Audit, TheRateOfFloatsIsNoBoundOfProductsOfBytes) {
  const Tensor a = placeholder({8, 64}, i8, "a"), b = placeholder({64, 32}, i8, "b");
  const Tensor scaled =
      ops::mul(ops::cast(ops::matmul(a, b, false, false, {.accumulate = i32, .output = i32}), f32),
               ops::full({1}, 0.5, f32));
  const auto rate = [](const Tensor& t) {
    return driver::work_of(ComputeDag({t}), Target::parse(kOneThread)).roof().flops_per_second;
  };
  EXPECT_EQ(rate(scaled), 0);
  EXPECT_GT(rate(ops::matmul(ops::cast(a, f32), ops::cast(b, f32))), 0);
}

}  // namespace
}  // namespace heddle::testing

// Budgets, names of logs, and the table at all widths and heights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/figures.h"
#include "heddle/support/error.h"
#include "tune/budget.h"
#include "tune/node_table.h"
#include "tune/share.h"
#include "tune/task_rows.h"
#include "tune/tune_subjects.h"

namespace heddle::cli {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

TEST(Budget, TakesSecondsMinutesAndHours) {
  EXPECT_DOUBLE_EQ(parse_budget("90"), 90);
  EXPECT_DOUBLE_EQ(parse_budget("90s"), 90);
  EXPECT_DOUBLE_EQ(parse_budget("0.5s"), 0.5);
  EXPECT_DOUBLE_EQ(parse_budget("2m"), 120);
  EXPECT_DOUBLE_EQ(parse_budget("1.5m"), 90);
  EXPECT_DOUBLE_EQ(parse_budget("1h"), 3600);
  EXPECT_DOUBLE_EQ(parse_budget("1h30m5s"), 5405);
  EXPECT_DOUBLE_EQ(parse_budget("1m30"), 90);
}

TEST(Budget, RefusesWhatIsNoTime) {
  for (const char* text : {"", "s", "x", "10x", "-5", "0", "0s", "1s2m", "1m1m", "1 m", "nan",
                           "inf", "1e5", "5ss", "31h1h", "2000h"}) {
    try {
      parse_budget(text);
      ADD_FAILURE() << "took '" << text << "'";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::User);
      EXPECT_THAT(e.message, HasSubstr(std::string("'") + text + "' is no time: "));
      EXPECT_THAT(e.help, HasSubstr("1h30m"));
    }
  }
}

TEST(Share, IsAPercentage) {
  EXPECT_DOUBLE_EQ(parse_share("5%"), 0.05);
  EXPECT_DOUBLE_EQ(parse_share("0.5%"), 0.005);
  for (const char* text : {"", "%", "5", "0%", "100%", "-1%", "nan%", "5%%", "x%", "5 %"}) {
    try {
      parse_share(text);
      ADD_FAILURE() << "took '" << text << "'";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::User);
      EXPECT_THAT(e.help, HasSubstr("5%"));
    }
  }
}

TEST(LogName, IsAPlainFileName) {
  EXPECT_EQ(default_log_name({"matmul:512x512x512"}), "heddle-matmul-512x512x512.jsonl");
  EXPECT_EQ(default_log_name({"conv2d:c=64,h=56", "b", "c"}),
            "heddle-conv2d-c-64-h-56-and-2-more.jsonl");
  EXPECT_EQ(default_log_name({"/home/me/digits.onnx:batch=1"}), "heddle-digits.onnx-batch-1.jsonl");
  EXPECT_EQ(default_log_name({"softmax:8..512/8x64"}), "heddle-softmax-8..512-8x64.jsonl");
  EXPECT_LT(default_log_name({std::string(300, 'x')}).size(), 100u);
}

TEST(Figures, Read) {
  EXPECT_EQ(count_text(1, "trial"), "1 trial");
  EXPECT_EQ(count_text(1234567, "trial"), "1,234,567 trials");
  EXPECT_EQ(clock_text(59.4), "59 s");
  EXPECT_EQ(clock_text(59.6), "1:00");
  EXPECT_EQ(clock_text(3725), "1:02:05");
  EXPECT_EQ(clock_text(-1), "0 s");
  EXPECT_EQ(shorten("abcdefghij", 10), "abcdefghij");
  EXPECT_EQ(shorten("abcdefghijkl", 8), "abcd..kl");
  EXPECT_EQ(shorten("abcdef", 2), "ab");
}

TaskRow row(const std::string& name, double static_ms, double best_ms, double calls = 1) {
  TaskRow r;
  r.name = name;
  r.calls = calls;
  r.trials = 100;
  r.failures = 3;
  r.static_seconds = static_ms * 1e-3;
  r.best_seconds = best_ms * 1e-3;
  r.scale = {Bound::Compute, 2e8, 4e11};
  return r;
}

std::vector<TaskRow> many(int n) {
  std::vector<TaskRow> rows;
  for (int i = 0; i < n; ++i) {
    rows.push_back(
        row("conv2d:n=1,c=64,h=56,k=64,r=3,pad=1,layout=nhwc,number=" + std::to_string(i), 2.0 + i,
            1.0 + i, 1 + i % 2));
  }
  return rows;
}

TEST(TaskTable, ShowsWhatIsKnown) {
  const std::vector<TaskRow> rows = {row("matmul:8x8x8", 2, 1)};
  const std::vector<std::string> lines = table_lines(rows);
  ASSERT_THAT(lines, SizeIs(2));
  EXPECT_EQ(lines[0],
            "  task          trials  failed   static     best  speed-up  GFLOP/s  of peak");
  EXPECT_EQ(lines[1],
            "  matmul:8x8x8     100       3  2.00 ms  1.00 ms     2.00x      200      50%");
}

TEST(TaskTable, WhatIsNotMeasuredIsADash) {
  TaskRow r = row("matmul:8x8x8", 0, 0);
  const std::vector<std::string> lines = table_lines(std::vector{r});
  EXPECT_THAT(lines[1], HasSubstr("-"));
  EXPECT_THAT(lines[1], Not(HasSubstr("inf")));
  EXPECT_THAT(lines[1], Not(HasSubstr("nan")));
}

TEST(TaskTable, UnitsStandInCellsWhereTheyDiffer) {
  std::vector<TaskRow> rows = {row("a", 2, 1), row("b", 2, 1)};
  rows[1].scale.bound = Bound::Copy;
  const std::vector<std::string> lines = table_lines(rows);
  EXPECT_THAT(lines[0], HasSubstr("rate"));
  EXPECT_THAT(lines[1], HasSubstr("200 GFLOP/s"));
  EXPECT_THAT(lines[2], HasSubstr("200 GB/s"));
}

TEST(TaskTable, APeakThatIsExceededWasMeasuredTooLow) {
  std::vector<TaskRow> rows = {row("a", 2, 1)};
  rows[0].scale.peak = 1e11;
  EXPECT_THAT(table_lines(rows)[1], HasSubstr(">100%"));
}

TEST(TaskTable, NoLineIsTooWide) {
  const std::vector<TaskRow> rows = many(4);
  for (int columns = 1; columns <= 200; ++columns) {
    const std::vector<std::string> lines = table_lines(rows, {columns, INT_MAX});
    ASSERT_THAT(lines, SizeIs(5)) << columns;
    for (const std::string& line : lines) {
      EXPECT_LE(line.size(), static_cast<size_t>(columns)) << line;
    }
  }
}

TEST(TaskTable, NarrowOnesKeepTheBestTime) {
  const std::vector<std::string> narrow = table_lines(many(2), {45, INT_MAX});
  EXPECT_THAT(narrow[0], HasSubstr("best"));
  EXPECT_THAT(narrow[0], HasSubstr("speed-up"));
  EXPECT_THAT(narrow[0], Not(HasSubstr("calls")));
  EXPECT_THAT(narrow[1], HasSubstr(".."));
  const std::vector<std::string> wide = table_lines(many(2), {200, INT_MAX});
  EXPECT_THAT(wide[0], HasSubstr("calls"));
  EXPECT_THAT(wide[1], HasSubstr("number=0"));
}

TEST(TaskTable, ShortOnesShowTheMostImportant) {
  std::vector<TaskRow> rows = many(20);
  rows[3].active = true;
  const std::vector<std::string> lines = table_lines(rows, {120, 6});
  ASSERT_THAT(lines, SizeIs(6));
  // The current task, then those that take the longest, in their own order.
  EXPECT_THAT(lines[1], StartsWith("> conv2d"));
  EXPECT_THAT(lines[1], HasSubstr("number=3"));
  EXPECT_THAT(lines[2], HasSubstr("number=15"));
  EXPECT_THAT(lines[3], HasSubstr("number=17"));
  EXPECT_THAT(lines[4], HasSubstr("number=19"));
  EXPECT_EQ(lines[5], "  and 16 more tasks");
  EXPECT_THAT(table_lines(rows, {120, 21}), SizeIs(21));
  EXPECT_THAT(table_lines(rows, {120, 20}), SizeIs(20));
}

TEST(Overall, IsWeightedByCalls) {
  const Overall sum = overall_of(std::vector{row("a", 2, 1, 3), row("b", 4, 4)});
  EXPECT_DOUBLE_EQ(sum.static_seconds, 0.010);
  EXPECT_DOUBLE_EQ(sum.best_seconds, 0.007);
  // A sum that lacks a task is not shown.
  EXPECT_EQ(overall_of(std::vector{row("a", 2, 1), row("b", 0, 0)}).best_seconds, 0);
}

TEST(Nodes, HaveALineEachAsFarAsThereIsRoom) {
  std::vector<NodeUse> nodes;
  for (int i = 0; i < 12; ++i) {
    nodes.push_back({.name = "n" + std::to_string(i),
                     .machine = "m",
                     .trials = 10 * i,
                     .failures = i,
                     .seconds = 10,
                     .busy_seconds = 7.5});
  }
  nodes[1].gone = true;
  nodes[2].set_aside = "it wanders";
  const std::vector<std::string> all = node_lines(nodes, 100);
  ASSERT_THAT(all, SizeIs(13));
  EXPECT_THAT(all[0], HasSubstr("waiting"));
  EXPECT_THAT(all[1], HasSubstr("25%"));
  EXPECT_THAT(all[2], HasSubstr("gone"));
  EXPECT_THAT(all[3], HasSubstr("set aside: it wanders"));
  const std::vector<std::string> few = node_lines(nodes, 10);
  ASSERT_THAT(few, SizeIs(10));
  EXPECT_EQ(few[9], "  and 4 other devices");
  EXPECT_THAT(node_lines({}, 10), SizeIs(0));
  EXPECT_EQ(nodes_json(nodes).at(2).at("set_aside").as_string(), "it wanders");
  EXPECT_DOUBLE_EQ(nodes_json(nodes).at(5).at("waiting").as_double(), 0.25);
}

}  // namespace
}  // namespace heddle::cli

// heddle report: ticks, escaping, and pages whose marks can be counted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "report/html.h"
#include "report/plot.h"
#include "report/sections.h"
#include "run_command.h"
#include "support/files/file.h"
#include "synthetic_log.h"

namespace heddle::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<std::string> labels(const std::vector<Tick>& ticks) {
  std::vector<std::string> out;
  for (const Tick& t : ticks) out.push_back(t.label);
  return out;
}

TEST(Ticks, AreRound) {
  EXPECT_THAT(labels(linear_ticks(0, 10, 6)), ElementsAre("0", "2", "4", "6", "8", "10"));
  EXPECT_THAT(labels(linear_ticks(-1, 1, 6)), ElementsAre("-1", "-0.5", "0", "0.5", "1"));
  EXPECT_THAT(labels(linear_ticks(0.11, 0.49, 5)), ElementsAre("0.2", "0.3", "0.4"));
  EXPECT_THAT(labels(linear_ticks(0, 1234, 7)),
              ElementsAre("0", "200", "400", "600", "800", "1000", "1200"));
  EXPECT_THAT(labels(linear_ticks(3, 3, 5)), ElementsAre("3"));
}

TEST(Ticks, LogarithmicOnesFitTheRange) {
  EXPECT_THAT(labels(log_ticks(1, 1000, 5)), ElementsAre("1", "10", "100", "1000"));
  EXPECT_THAT(labels(log_ticks(0.9, 100, 8)), ElementsAre("1", "2", "5", "10", "20", "50", "100"));
  // Less than a decade: even steps.
  EXPECT_THAT(labels(log_ticks(10.2, 11.8, 6)), ElementsAre("10.5", "11", "11.5"));
}

TEST(Ticks, LieWithinAndAreNeverTooMany) {
  for (double low = 1e-9; low < 1e6; low *= 3.7) {
    for (double factor = 1.001; factor < 1e12; factor *= 2.9) {
      for (const int most : {2, 5, 8}) {
        const double high = low * factor;
        for (const bool logarithmic : {false, true}) {
          const std::vector<Tick> ticks =
              logarithmic ? log_ticks(low, high, most) : linear_ticks(low, high, most);
          EXPECT_LE(ticks.size(), static_cast<size_t>(most)) << low << " " << high;
          // Less than a pixel.
          const double slack = 1e-6 * (logarithmic ? low : high);
          for (const Tick& t : ticks) {
            EXPECT_GE(t.value, low - slack);
            EXPECT_LE(t.value, high + slack);
          }
        }
      }
    }
  }
}

TEST(Scale, MapsBothWays) {
  const Scale up(0, 10, 200, 100);
  EXPECT_DOUBLE_EQ(up(0), 200);
  EXPECT_DOUBLE_EQ(up(5), 150);
  EXPECT_DOUBLE_EQ(up(11), 100);  // at the end, not beyond
  const Scale log(1, 100, 0, 200, true);
  EXPECT_DOUBLE_EQ(log(10), 100);
  EXPECT_DOUBLE_EQ(Scale(3, 3, 0, 10)(3), 5);
}

TEST(Escape, LeavesNoMarkup) {
  EXPECT_EQ(escape_xml("a<b>&\"c'\x01"), "a&lt;b&gt;&amp;&quot;c&#39;?");
  Svg svg(10, 10, "<title>");
  svg.text(1, 1, "</text><script>", "x");
  svg.circle(1, 1, 1, "x", "</title>&");
  const std::string out = svg.finish();
  EXPECT_THAT(out, Not(HasSubstr("<script>")));
  EXPECT_THAT(out, HasSubstr("aria-label=\"&lt;title&gt;\""));
  EXPECT_EQ(count(out, "</title>"), 1);
}

TEST(Coordinates, AreShortAndFinite) {
  EXPECT_EQ(coordinate(12.5), "12.5");
  EXPECT_EQ(coordinate(100), "100");
  EXPECT_EQ(coordinate(-0.001), "0");
  EXPECT_EQ(coordinate(1 / 3.0), "0.33");
  EXPECT_EQ(coordinate(NAN), "0");
}

// ---- pages
// -----------------------------------------------------------------------------------------

std::optional<Declared> static_is_tile_8(const Record& r) {
  Json config = r.config;
  config["tile"] = 8;
  config["pack"] = 0;
  return Declared{config, 0};
}

const std::vector<SyntheticTask> kTwo = {{"matmul:512x512x512"}, {"a <b> & \"c\"", 1e-4, 1e6, 1e6}};

// Every element is closed, and nothing comes from elsewhere.
void expect_well_formed(const std::string& page) {
  std::vector<std::string> open;
  for (size_t at = page.find('<'); at != std::string::npos; at = page.find('<', at + 1)) {
    const size_t end = page.find('>', at);
    ASSERT_NE(end, std::string::npos);
    const std::string tag = page.substr(at + 1, end - at - 1);
    const std::string name =
        tag.substr(tag[0] == '/' ? 1 : 0, tag.find_first_of(" />", 1) - (tag[0] == '/' ? 1 : 0));
    if (tag[0] == '!' || name == "meta" || tag.back() == '/') continue;
    if (tag[0] != '/') {
      open.push_back(name);
      continue;
    }
    ASSERT_FALSE(open.empty()) << tag;
    ASSERT_EQ("/" + open.back(), tag);
    open.pop_back();
  }
  EXPECT_THAT(open, IsEmpty());
  for (const char* outside : {"<script", "<link", "<img", "url(", "href=", "@import", "src="}) {
    EXPECT_THAT(page, Not(HasSubstr(outside)));
  }
  EXPECT_THAT(page, Not(HasSubstr("nan")));
  EXPECT_THAT(page, Not(HasSubstr(">inf")));
}

// Only of a log that several machines wrote.
TEST(Report, SaysWhatEachMachineMeasured) {
  const std::vector<Record> one = synthetic_records({{.name = "a"}}, 40);
  EXPECT_EQ(machines_section(log_data(one)), "");
  std::vector<Record> two = one;
  int second = 0;
  for (size_t i = 0; i < two.size(); i += 3, ++second) two[i].machine = "m at n<1>#0";
  const std::string html = machines_section(log_data(two));
  EXPECT_THAT(html, HasSubstr("m at n&lt;1&gt;#0"));
  EXPECT_THAT(html, HasSubstr(">" + std::to_string(second) + "<"));
}

TEST(Report, DrawsEveryTrialOnce) {
  const LogData data = log_data(synthetic_records({kTwo[0]}, 100), {}, static_is_tile_8);
  const std::string page = report_page(data, {});
  expect_well_formed(page);
  ASSERT_EQ(data.tasks.size(), 1u);
  const int failed = data.tasks[0].failures;
  EXPECT_GT(failed, 0);
  // In two charts of trials; and a mark in the legend. Rounds of the model use the same dots.
  const std::string curves = curves_section(data);
  EXPECT_EQ(count(curves, "class=\"trial\""), 2 * (100 - failed) + 1);
  EXPECT_EQ(count(curves, "class=\"race\""), 2 * 2 + 1);
  EXPECT_EQ(count(curves, "<polyline"), 2);
  EXPECT_EQ(count(curves, "trial 1: "), 1);
  EXPECT_EQ(count(model_section(data), "class=\"trial\""), 3 + 1 + 0);
}

TEST(Report, KnowsStaticBestAndCalls) {
  const LogData data =
      log_data(synthetic_records(kTwo, 64, 0), {{"matmul:512x512x512", 3}}, static_is_tile_8);
  ASSERT_EQ(data.tasks.size(), 2u);
  const TaskLog& t = data.tasks[0];
  EXPECT_TRUE(t.static_known);
  EXPECT_EQ(t.first->config.at("tile").as_int(), 8);
  EXPECT_EQ(t.first->verdict, Verdict::Raced);  // it was timed beside the best
  EXPECT_DOUBLE_EQ(t.static_seconds(), 2e-3 * 1.02);
  EXPECT_LT(t.best_seconds(), t.static_seconds());
  EXPECT_DOUBLE_EQ(data.static_total, 3 * t.static_seconds() + data.tasks[1].static_seconds());
  // The records of a network say it themselves; what the user says goes before.
  std::vector<Record> of_network = synthetic_records(kTwo, 64, 0);
  for (Record& r : of_network) r.calls = r.subject == kTwo[0].name ? 5 : 7;
  const LogData told = log_data(of_network, {{kTwo[0].name, 3}}, static_is_tile_8);
  EXPECT_EQ(told.tasks[0].calls, 3);
  EXPECT_EQ(told.tasks[1].calls, 7);
  EXPECT_DOUBLE_EQ(told.best_total,
                   3 * told.tasks[0].best_seconds() + 7 * told.tasks[1].best_seconds());
  const std::string page = report_page(data, {{1, 100, 10}, {2, 200, 20}});
  expect_well_formed(page);
  for (const char* text : {"Share of each task", "Roofline", "2 threads: 200 GFLOP/s, 20.0 GB/s",
                           "No trial failed", "a &lt;b&gt; &amp; &quot;c&quot;", "knobs differ"}) {
    EXPECT_THAT(page, HasSubstr(text));
  }
  EXPECT_EQ(count(page, "class=\"roof\""), 2 + 2);
  EXPECT_EQ(count(page, "class=\"point-best\""), 2 + 1);
}

// Screening measured a lucky time. The race corrects it, and all figures are those of the race.
TEST(Report, CurvesEndAtWhatTheRaceSays) {
  std::vector<Record> records = synthetic_records({kTwo[0]}, 40, 0);
  double screened = 1;
  for (Record& r : records) {
    if (!r.raced()) screened = std::min(screened, r.median());
  }
  for (Record& r : records) {
    if (!r.raced()) continue;
    const bool is_static = r.config.at("tile").as_int() == 8;
    r.seconds = {is_static ? 2.57e-3 : 2.56e-3};  // no clear win: static stays
    if (is_static) r.verdict = Verdict::Won;
  }
  // Later screening without a race does not change the result.
  Record late = records[5];
  late.seconds = {screened / 2};
  records.push_back(late);
  const LogData data = log_data(std::move(records), {}, static_is_tile_8);
  const TaskLog& t = data.tasks.at(0);
  EXPECT_EQ(t.best_seconds(), 2.57e-3);
  EXPECT_DOUBLE_EQ(t.speedup(), 1);
  EXPECT_FALSE(t.screened());
  ASSERT_FALSE(t.curve.empty());
  EXPECT_EQ(t.curve.back().seconds, 2.57e-3);
  double least = 1;
  for (const CurvePoint& p : t.curve) least = std::min(least, p.seconds);
  EXPECT_LE(least, screened);
  const std::string page = report_page(data, {});
  EXPECT_THAT(page, HasSubstr("2.57 ms to 2.57 ms, 1.00x"));
  EXPECT_THAT(page, Not(HasSubstr("2.56 ms to")));
}

TEST(Report, ABestThatWasNeverRacedIsMarked) {
  std::vector<Record> records = synthetic_records({kTwo[0]}, 40, 0);
  std::erase_if(records, [](const Record& r) { return r.raced(); });
  const LogData data = log_data(std::move(records), {}, static_is_tile_8);
  EXPECT_TRUE(data.tasks.at(0).screened());
  EXPECT_EQ(data.tasks[0].curve.back().seconds, data.tasks[0].best_seconds());
  EXPECT_THAT(report_page(data, {}), HasSubstr("Timed in screening only"));
  EXPECT_THAT(report_page(data, {}), HasSubstr("(screened, not raced)"));
}

TEST(Report, WithoutADeclarationTheFirstRunStandsForStatic) {
  const LogData data = log_data(synthetic_records({kTwo[1]}, 40), {}, {});
  EXPECT_FALSE(data.tasks[0].static_known);
  EXPECT_EQ(data.tasks[0].first->config.at("tile").as_int(), 8);
  EXPECT_THAT(report_page(data, {}), HasSubstr("taken to be"));
}

TEST(Report, WhatWasChosenWithoutARaceIsTheBestAndNoTrial) {
  std::vector<Record> records = synthetic_records({kTwo[0]}, 40);
  std::erase_if(records, [](const Record& r) { return r.raced(); });
  Record kept = records.front();
  kept.verdict = Verdict::Chosen;
  records.push_back(kept);
  const LogData data = log_data(std::move(records), {}, static_is_tile_8);
  EXPECT_EQ(data.tasks.at(0).trials.size(), 40u);
  EXPECT_EQ(data.tasks[0].best->config, kept.config);
  EXPECT_DOUBLE_EQ(data.tasks[0].speedup(), 1);
}

TEST(Report, BreaksAreLeftOut) {
  std::vector<Record> records = synthetic_records({kTwo[0]}, 60, 0);
  for (size_t i = 30; i < records.size(); ++i) records[i].unix_time += 7 * 24 * 3600;
  const LogData data = log_data(std::move(records), {}, {});
  EXPECT_LT(data.seconds, 10);
  EXPECT_EQ(data.resumed.size(), 1u);
  EXPECT_EQ(count(curves_section(data), "class=\"resumed\""), 1);
}

TEST(Report, EmptyAndFailedLogs) {
  expect_well_formed(report_page(log_data({}, {}, {}), {}));
  EXPECT_THAT(report_page(log_data({}, {}, {}), {}), HasSubstr("There are no records."));
  const LogData failed = log_data(synthetic_records(kTwo, 20, 1.1), {}, static_is_tile_8);
  // The first of each is the static one, which runs: break it too.
  std::vector<Record> all = failed.records;
  for (Record& r : all) {
    r.seconds.clear();
    r.error = MeasureError::Crash;
  }
  const LogData none = log_data(std::move(all), {}, static_is_tile_8);
  EXPECT_EQ(none.best_total, 0);
  const std::string page = report_page(none, {{1, 100, 10}});
  expect_well_formed(page);
  EXPECT_THAT(page, HasSubstr("no trial succeeded"));
  EXPECT_THAT(page, HasSubstr("crash (44)"));
}

TEST(Report, ManyTrialsAreThinnedOut) {
  const LogData data = log_data(synthetic_records({kTwo[0]}, 6000), {}, {});
  const std::string curves = curves_section(data);
  EXPECT_LT(curves.size(), 600'000u);
  EXPECT_THAT(curves, HasSubstr("every so manieth"));
}

TEST(Report, SameNamesAreToldApart) {
  std::vector<Record> records = synthetic_records({{"a"}, {"a"}}, 5, 0);
  for (Record& r : records) {
    if (r.structural_hash == 101) r.target.cores = 4;
  }
  const LogData data = log_data(std::move(records), {}, {});
  EXPECT_EQ(data.tasks[0].name, "a, 2 threads");
  EXPECT_EQ(data.tasks[1].name, "a, 4 threads");
}

// ---- the command
// -----------------------------------------------------------------------------------

std::string log_file(const std::string& name, const std::vector<Record>& records,
                     const std::string& torn) {
  std::string text;
  for (const Record& r : records) {
    Record whole = r;
    whole.steps = Json::object();
    text += whole.to_json().dump() + "\n";
  }
  write_file_atomic(name, text + torn);
  return name;
}

TEST(ReportCommand, TornLinesAreReported) {
  const std::string page = temporary("torn.html");
  const std::string log =
      log_file(temporary("torn.jsonl"), synthetic_records({kTwo[0]}, 20), "{\"v\":1,\"ha");
  const CommandResult r = heddle_command("report " + log + " -o " + page);
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("22 records of 1 task, 1 line could not be read"));
  EXPECT_THAT(read_file(page), HasSubstr("What could not be read"));
  ::unlink(log.c_str());
  ::unlink(page.c_str());
}

TEST(ReportCommand, ToStandardOutput) {
  const std::string log = log_file(temporary("out.jsonl"), synthetic_records(kTwo, 5), "");
  const CommandResult r = heddle_command("report -o - " + log);
  EXPECT_EQ(r.status, 0) << r.err;
  expect_well_formed(r.out);
  const CommandResult twice =
      heddle_command("report -o - " + log + " " + log +
                     " --calls matmul:512x512x512=2.5 --peak 100 --bandwidth 10");
  EXPECT_EQ(twice.status, 0) << twice.err;
  EXPECT_THAT(twice.out, HasSubstr(">2.5<"));
  const CommandResult unknown = heddle_command("report -o - " + log + " --calls matmul=2");
  EXPECT_EQ(unknown.status, 2);
  EXPECT_THAT(unknown.err, HasSubstr("of which there are no records"));
  EXPECT_THAT(unknown.out, IsEmpty());
  ::unlink(log.c_str());
}

}  // namespace
}  // namespace heddle::cli

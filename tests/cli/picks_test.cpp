// heddle picks, and picks in a report.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>

#include "heddle/driver/build_multi.h"
#include "heddle/support/json.h"
#include "run_command.h"

namespace heddle::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

PickRow row_of(const std::string& key, const std::string& kernel, const std::string& build) {
  PickRow row;
  row.kernel = kernel;
  row.shapes = "f32[16, 32], f32[16, 32]";
  row.key = key;
  row.picked = "tuned";
  row.reason = PickReason::Measured;
  row.variants = {{"static", {3e-5, 3.1e-5, 2.9e-5}, {}},
                  {"tuned", {1e-5, 1.1e-5, 0.9e-5}, {}},
                  {"<wrong>", {}, "its answer 'y' differs"}};
  row.machine = pick_origin().machine;
  row.build = build;
  row.unix_time = 1700000000;
  return row;
}

class Picks : public ::testing::Test {
 protected:
  Picks() {
    store_.remember(row_of("aa11", "softmax", pick_origin().build));
    store_.remember(row_of("aa22", "dense", "0.0.9"));
    store_.remember(row_of("bb33", "dense", pick_origin().build));
  }
  ~Picks() override { std::filesystem::remove_all(folder_); }
  CommandResult run(const std::string& arguments) const {
    return heddle_command("picks " + arguments, "HEDDLE_PICKS=" + folder_);
  }
  std::string folder_ = temporary("picks");
  PickStore store_{folder_};
};

TEST_F(Picks, AreListed) {
  const CommandResult list = run("list");
  EXPECT_EQ(list.status, 0) << list.err;
  EXPECT_THAT(list.out, HasSubstr("3.00x"));
  EXPECT_THAT(list.out, HasSubstr("no, another build"));
  EXPECT_THAT(list.out, HasSubstr("3 picks in " + folder_));
  EXPECT_THAT(run("list --kernel soft").out, Not(HasSubstr("dense")));
  const Json json = Json::parse(run("list --json").out);
  ASSERT_EQ(json.size(), 3U);
  EXPECT_EQ(std::count_if(json.elements().begin(), json.elements().end(),
                          [](const Json& j) { return j.at("valid").as_bool(); }),
            2);
  write_file_atomic(folder_ + "/cc44.json", "{");
  write_file_atomic(folder_ + "/cc55.json", "{\"pick\": 1000}");  // of a newer Heddle
  EXPECT_THAT(run("list").err, HasSubstr("warning: "));
  EXPECT_THAT(run("forget --stale").out, HasSubstr("forgot 1 pick and 1 damaged file"));
  EXPECT_THAT(run("list").err, HasSubstr("version 1000"));
  EXPECT_THAT(run("list").err, Not(HasSubstr("cc44")));
  EXPECT_THAT(heddle_command("picks list", "HEDDLE_PICKS=off").err, HasSubstr("turned off"));
  EXPECT_EQ(heddle_command("picks list", "HEDDLE_PICKS=off").status, 2);
}

TEST_F(Picks, AreExplained) {
  const CommandResult why = run("why aa2");
  EXPECT_EQ(why.status, 0) << why.err;
  EXPECT_THAT(why.out, HasSubstr("dense f32[16, 32], f32[16, 32]: 'tuned', measured"));
  EXPECT_THAT(why.out, HasSubstr("valid here: no, it is of another build"));
  EXPECT_THAT(why.out, HasSubstr("dropped: its answer 'y' differs"));
  EXPECT_THAT(why.out, HasSubstr("30.0 us"));
  EXPECT_EQ(Json::parse(run("why aa2 --json").out).at(0).at("kernel").as_string(), "dense");
  EXPECT_EQ(run("why zz").status, 2);
  EXPECT_THAT(run("why zz").err, HasSubstr("no pick in"));
  EXPECT_EQ(run("why").status, 2);
}

TEST_F(Picks, AreForgotten) {
  EXPECT_EQ(run("forget").status, 2);
  EXPECT_EQ(run("forget aa").status, 2) << "two keys begin with it";
  EXPECT_EQ(run("forget bb33 --all").status, 2);
  EXPECT_EQ(store_.all().size(), 3U);
  EXPECT_THAT(run("forget --stale").out, HasSubstr("forgot 1 pick"));
  EXPECT_EQ(store_.all().size(), 2U);
  EXPECT_EQ(Json::parse(run("forget aa11 --json").out).at("forgotten").at(0).as_string(), "aa11");
  EXPECT_EQ(store_.all().size(), 1U);
  EXPECT_EQ(run("forget --all").status, 0);
  EXPECT_EQ(store_.all().size(), 0U);
}

TEST_F(Picks, AreDrawnInAReport) {
  const std::string log = temporary("picks.jsonl"), page = temporary("picks.html");
  write_file_atomic(log, row_of("aa11", "soft<max>", "b").to_json().dump() + "\n" +
                             row_of("bb", "dense", "b").to_json().dump() + "\n{torn\n");
  const CommandResult made = heddle_command("report --picks " + log + " -o " + page);
  EXPECT_EQ(made.status, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("2 picks"));
  EXPECT_THAT(made.out, HasSubstr("1 line could not be read"));
  const std::string html = read_file(page);
  EXPECT_THAT(html, HasSubstr("Picks of multi-kernels"));
  EXPECT_THAT(html, HasSubstr("soft&lt;max&gt;"));
  EXPECT_THAT(html, Not(HasSubstr("<max>")));
  EXPECT_THAT(html, Not(HasSubstr("There are no records")));
  EXPECT_EQ(count(html, "class=\"bar-best\""), 2 + 1) << "one a pick, and the legend";
  EXPECT_EQ(count(html, "class=\"bar-static\""), 2 + 1);
  EXPECT_EQ(heddle_command("report").status, 2);
  std::filesystem::remove(log);
  std::filesystem::remove(page);
}

}  // namespace
}  // namespace heddle::cli

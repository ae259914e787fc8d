#include <gtest/gtest.h>

#include "heddle/support/error.h"
#include "support/edit_distance.h"
#include "support/table.h"

namespace heddle {
namespace {

TEST(EditDistance, CountsEdits) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("abc", ""), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("haswlel", "haswell"), 1);  // neighbours swapped
}

TEST(EditDistance, SuggestsOnlyWhatIsNear) {
  const std::vector<std::string> names = {"i.outer", "i.inner", "k"};
  EXPECT_EQ(did_you_mean("i.outr", names), "did you mean 'i.outer'?");
  EXPECT_EQ(did_you_mean("something", names), "");
  EXPECT_EQ(did_you_mean("x", {}), "");
}

TEST(Table, AlignsColumns) {
  Table table({"task", "time", "µs"});
  table.add_row({"conv", "41.2", "é"});
  table.add_rule();
  table.add_row({"long name", "3"});
  EXPECT_EQ(table.to_string(),
            "task       time  µs\n"
            "-------------------\n"
            "conv       41.2   é\n"
            "-------------------\n"
            "long name     3\n");
  EXPECT_THROW(table.add_row({"1", "2", "3", "4"}), Error);
}

TEST(Table, TimesHaveTheUnitThatFits) {
  EXPECT_EQ(format_time(8.5e-7), "850 ns");
  EXPECT_EQ(format_time(41.23e-6), "41.2 us");
  EXPECT_EQ(format_time(3.1e-3), "3.10 ms");
  EXPECT_EQ(format_time(250), "250 s");
}

}  // namespace
}  // namespace heddle

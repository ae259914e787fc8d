#include "support/log.h"

#include <gtest/gtest.h>

namespace heddle {
namespace {

TEST(Log, LevelsComeByComponentOrForAll) {
  using internal::parse_log_level;
  EXPECT_EQ(parse_log_level("", "lower"), 0);
  EXPECT_EQ(parse_log_level("lower:2,search:1", "lower"), 2);
  EXPECT_EQ(parse_log_level("lower:2,search:1", "search"), 1);
  EXPECT_EQ(parse_log_level("lower:2,search:1", "dag"), 0);
  EXPECT_EQ(parse_log_level("1,lower:3", "dag"), 1);
  EXPECT_EQ(parse_log_level("1,lower:3", "lower"), 3);
  EXPECT_EQ(parse_log_level("lower", "lower"), 1);
  EXPECT_EQ(parse_log_level("lower:,:,,:x", "lower"), 0);
}

TEST(Log, TextIsNotMadeWhenNobodyAsks) {
  int made = 0;
  HEDDLE_LOG_AT("no-such-component", 99, (++made, "text"));
  EXPECT_EQ(made, 0);
}

}  // namespace
}  // namespace heddle

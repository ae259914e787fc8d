#include "heddle/target/product_tasks.h"

#include <gtest/gtest.h>

namespace heddle {
namespace {

// Two tasks of sixteen vectors for each core are enough.
TEST(ProductTasks, ResultsAreCountedInVectorsForEachCore) {
  Target target;
  target.cores = 4;
  EXPECT_TRUE(has_few_tasks(target, {}, 2 * 4 * 16 * 8 - 1, 8));
  EXPECT_FALSE(has_few_tasks(target, {}, 2 * 4 * 16 * 8, 8));
  EXPECT_TRUE(has_few_tasks(target, {}, 2 * 4 * 16 * 8, 16));
  target.cores = 2;
  EXPECT_FALSE(has_few_tasks(target, {}, 2 * 2 * 16 * 16, 16));
}

}  // namespace
}  // namespace heddle

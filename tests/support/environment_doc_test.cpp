// docs/reference/environment.md lists every variable. To write it anew: HEDDLE_UPDATE_DOCS=1 support_test.
#include <gtest/gtest.h>

#include <cstdlib>

#include "heddle/support/error.h"
#include "source_dir.h"
#include "support/environment.h"
#include "support/files/file.h"

namespace heddle::testing {
namespace {

std::string document() {
  std::string text =
      "# Environment variables\n\n"
      "A test writes this page from the table in `src/support/environment.cpp`\n"
      "(`HEDDLE_UPDATE_DOCS=1 build/bin/support_test --gtest_filter='EnvironmentDoc.*'`).\n\n"
      "| variable | what it sets | where it is not set |\n|---|---|---|\n";
  for (const internal::EnvironmentVariable& v : internal::environment_variables())
    text += std::string("| `") + v.name + "` | " + v.what + " | " + v.otherwise + " |\n";
  text +=
      "\nPrograms around Heddle have variables of their own: fleets `HEDDLE_FLEET_WORKER` and\n"
      "`HEDDLE_FLEET_GPUS` ([fleets.md](../guide/fleets.md)), the lessons "
      "`HEDDLE_TUTORIAL_SECONDS` (of\n"
      "tuning), the tests `HEDDLE_UPDATE_DOCS`, `HEDDLE_UPDATE_GOLDENS`, `HEDDLE_PROPERTY_COUNT` "
      "and\n"
      "`HEDDLE_PROPERTY_SEED` ([CONTRIBUTING.md](../../CONTRIBUTING.md)).\n";
  return text;
}

TEST(EnvironmentDoc, ListsEveryVariable) {
  const std::string path = source_dir() + "/docs/reference/environment.md";
  if (std::getenv("HEDDLE_UPDATE_DOCS")) write_file_atomic(path, document());
  EXPECT_EQ(read_file(path), document());
}

TEST(EnvironmentDoc, OtherVariablesAreNotRead) {
  EXPECT_THROW(internal::environment_value("HEDDLE_UNKNOWN"), Error);
  ::setenv("HEDDLE_PICK", "fast", 1);
  EXPECT_EQ(internal::environment_value("HEDDLE_PICK"), "fast");
  ::unsetenv("HEDDLE_PICK");
  EXPECT_EQ(internal::environment_value("HEDDLE_PICK"), "");
}

}  // namespace
}  // namespace heddle::testing

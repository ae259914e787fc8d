#include "golden/golden.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "golden/text_diff.h"
#include "source_dir.h"
#include "support/files/file.h"

namespace heddle::testing {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHowToRewrite =
    "If the change is meant, rewrite the goldens and review them as a diff:\n"
    "  HEDDLE_UPDATE_GOLDENS=1 ctest --test-dir <build> -R golden; git diff tests/golden\n";

fs::path golden_folder() { return fs::path(source_dir()) / "tests" / "golden"; }

}  // namespace

bool updating_goldens() {
  const char* asked = std::getenv("HEDDLE_UPDATE_GOLDENS");
  return asked && *asked && std::string(asked) != "0";
}

void expect_golden(const std::string& name, const std::string& text) {
  const fs::path file = golden_folder() / (name + ".txt");
  const bool exists = fs::exists(file);
  const std::string checked_in = exists ? read_file(file.string()) : "";
  if (exists && checked_in == text) return;
  if (updating_goldens()) {
    fs::create_directories(file.parent_path());
    write_file_atomic(file.string(), text);
    return;
  }
  ADD_FAILURE() << "tests/golden/" << name << ".txt "
                << (exists ? "is not what is made now" : "does not exist") << ":\n"
                << unified_diff(checked_in, text) << kHowToRewrite;
}

void expect_no_golden(const std::string& name) {
  const fs::path file = golden_folder() / (name + ".txt");
  if (!fs::exists(file)) return;
  if (updating_goldens()) {
    fs::remove(file);
    return;
  }
  ADD_FAILURE() << "tests/golden/" << name << ".txt is the golden of nothing.\n" << kHowToRewrite;
}

void expect_no_other_goldens(const std::string& folder, const std::vector<std::string>& names) {
  if (!fs::exists(golden_folder() / folder)) return;
  for (const fs::directory_entry& entry : fs::directory_iterator(golden_folder() / folder)) {
    if (entry.path().extension() != ".txt") continue;
    const std::string name = folder + "/" + entry.path().stem().string();
    if (std::find(names.begin(), names.end(), name) == names.end()) expect_no_golden(name);
  }
}

}  // namespace heddle::testing

// heddle onnx: what is supported.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heddle/onnx/import.h"
#include "run_command.h"

namespace heddle {
namespace {

using ::testing::HasSubstr;

TEST(OnnxCommand, ListsWhatIsSupportedAndWhatIsNot) {
  const CommandResult r = heddle_command("onnx --coverage");
  if (!onnx_available()) {
    EXPECT_EQ(r.status, 2);
    EXPECT_THAT(r.err, HasSubstr("libprotobuf-dev"));
    return;
  }
  EXPECT_EQ(r.status, 0) << r.err;
  const size_t second = r.out.find(" are not:");
  ASSERT_NE(second, std::string::npos) << r.out;
  EXPECT_LT(r.out.find(" Conv "), second);
  EXPECT_GT(r.out.find(" Loop"), second);
  EXPECT_EQ(heddle_command("onnx").status, 2);
}

}  // namespace
}  // namespace heddle

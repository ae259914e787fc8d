// Certificates of schedules: evidence of all choices, and where there is none.
#include "heddle/heuristics/certificate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "environment.h"
#include "heddle/ops/ops.h"
#include "heddle/records/tophub.h"
#include "heuristics/certify/certificates_file.h"
#include "heuristics/one_share.h"
#include "support/files/file.h"

namespace heddle {
namespace {

using ::testing::HasSubstr;
using testing::one_share;

ComputeDag rows_dag() { return ComputeDag({ops::softmax(placeholder({64, 256}, f32, "x"))}); }

class CertifyTest : public ::testing::Test {
 protected:
  CertifyTest() { std::filesystem::create_directories(folder_); }
  ~CertifyTest() override { std::filesystem::remove_all(folder_); }

  void write(std::vector<learning::ShareTree> classes, const std::string& chip) const {
    learning::write_certificates(folder_ + "/llvm-" + chip + ".certificates",
                                 {.kind = "llvm", .classes = std::move(classes)});
    reload_tophub();
  }

  const std::string folder_ = ::testing::TempDir() + "certify_test_" + std::to_string(::getpid());
  const testing::Variable variable_{"HEDDLE_LEARNED", folder_};
  const Target host_ = Target::host();
};

TEST_F(CertifyTest, WithoutEvidenceOnlyTheBoundIsKnown) {
  reload_tophub();
  const Certificate c = certify(rows_dag(), host_);
  EXPECT_GT(c.least_seconds, 0);
  EXPECT_FALSE(c.probability.has_value());
  EXPECT_EQ(c.expected_seconds, 0);
  EXPECT_THAT(c.to_string(), HasSubstr("not known"));
  EXPECT_TRUE(c.to_json().at("probability").is_null());
}

TEST_F(CertifyTest, TheBoundKnowsMatrixUnits) {
  const Target h200 = Target::parse("cuda -gpu=h200");
  const auto least = [&](DataType type, const AutoSchedulerOptions& options = {}) {
    const Tensor a = placeholder({4096, 4096}, type, "a"), b = placeholder({4096, 4096}, type, "b");
    return certify(ComputeDag({ops::matmul(a, b)}), h200, options).least_seconds;
  };
  // The data sheet: 989e12 operations of f16 a second, and 67e12 of f32.
  const double operations = 2 * std::pow(4096., 3);
  EXPECT_NEAR(least(f16), operations / 989e12, 0.1 * operations / 989e12);
  EXPECT_NEAR(least(f32), operations / 67e12, 0.1 * operations / 67e12);
  EXPECT_NEAR(least(f8e4m3), least(f16) / 2, 0.01 * least(f16));
  EXPECT_LE(least(f32, {.allow_tf32 = true}), operations / 989e12);
}

TEST_F(CertifyTest, TheBoundLeavesKeysOutThatNoRowNeeds) {
  const auto least = [](bool causal, int64_t rows) {
    const Tensor q = placeholder({16, rows, 64}, f16, "q"),
                 k = placeholder({16, 4096, 64}, f16, "k"),
                 v = placeholder({16, 4096, 64}, f16, "v");
    return certify(ComputeDag({ops::attention(q, k, v, {.causal = causal}).result}),
                   Target::parse("cuda -gpu=h200"), {})
        .least_seconds;
  };
  EXPECT_NEAR(least(true, 4096) / least(false, 4096), 0.5, 0.01);
}

TEST_F(CertifyTest, IsTheProductOfItsChoices) {
  write({one_share("alternative", 0.9, 2), one_share("contraction", 0.7, 2),
         one_share("location", 0.5, 2), one_share("reduction", 0.8, 2)},
        host_.chip());
  const Certificate c = certify(rows_dag(), host_);
  ASSERT_TRUE(c.probability.has_value()) << c.to_string();
  ASSERT_FALSE(c.choices.empty());
  double product = 1;
  for (const CertifiedChoice& choice : c.choices) product *= *choice.probability;
  EXPECT_DOUBLE_EQ(*c.probability, product);
  EXPECT_GE(c.expected_seconds, 1.9 * c.least_seconds);
  EXPECT_EQ(c.source, "certificates llvm-" + host_.chip());
}

TEST_F(CertifyTest, AChoiceWithoutEvidenceLeavesAllUnknown) {
  write({one_share("alternative", 0.9, 2), one_share("contraction", 0.9, 2)}, host_.chip());
  const Certificate c = certify(rows_dag(), host_);
  EXPECT_FALSE(c.probability.has_value());
  EXPECT_THAT(c.to_string(), HasSubstr("none of its problems were measured"));
}

TEST_F(CertifyTest, EvidenceOfOtherFeaturesIsNone) {
  learning::ShareTree turned = one_share("reduction", 0.8, 2);
  std::swap(turned.features.front(), turned.features.back());
  write({turned, one_share("location", 0.8, 2)}, host_.chip());
  const Certificate c = certify(rows_dag(), host_);
  EXPECT_FALSE(c.probability.has_value()) << c.to_string();
  EXPECT_THAT(c.to_string(), HasSubstr("none of its problems were measured"));
}

// A file that was cut off or changed counts as none, and says why where it is asked for itself.
TEST_F(CertifyTest, FilesThatAreCutOffOrChangedAreRefused) {
  write({one_share("reduction", 0.8, 2)}, host_.chip());
  const std::string path = folder_ + "/llvm-" + host_.chip() + ".certificates";
  const std::string whole = read_file(path);
  const auto message = [&](const std::string& content) -> std::string {
    write_file_atomic(path, content);
    reload_tophub();
    EXPECT_FALSE(certify(rows_dag(), host_).probability.has_value());
    try {
      (void)certificate_calibration(host_);
      return "";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::User) << e.what();
      return e.message;
    }
  };
  for (std::size_t n = 0; n + 1 < whole.size(); n += 97)
    EXPECT_NE(message(whole.substr(0, n)), "") << n;
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string content = whole;
    const std::size_t at = content.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return message(content.replace(at, from.size(), to));
  };
  EXPECT_THAT(changed("\"share\":0.8", "\"share\":1.5"), HasSubstr("'share' is 1.5, not in 0"));
  EXPECT_THAT(changed("\"within\":80", "\"within\":101"), HasSubstr("'within' is 101"));
  EXPECT_THAT(changed("\"heddle_certificates\":1", "\"heddle_certificates\":9"),
              HasSubstr("format 1"));
  EXPECT_THAT(changed("\"kind\":\"llvm\"", "\"kind\":\"cuda\""), HasSubstr("of kind 'cuda'"));
}

TEST_F(CertifyTest, AnotherChipsEvidenceSaysSo) {
  const Target other = Target::parse("llvm -mcpu=skylake-avx512");
  write({one_share("reduction", 0.8, 2), one_share("location", 0.8, 2)}, other.chip());
  const Certificate c = certify(rows_dag(), Target::parse("llvm -mcpu=znver3"));
  EXPECT_THAT(c.source, HasSubstr("certificates llvm-" + other.chip() + ", the nearest"));
  EXPECT_TRUE(c.probability.has_value()) << c.to_string();
}

}  // namespace
}  // namespace heddle

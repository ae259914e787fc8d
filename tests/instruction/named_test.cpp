// Steps of schedules that name instructions: in JSON and texts, and as lowering checks them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heddle/codegen/cuda.h"
#include "heddle/driver/build.h"
#include "heddle/instruction/instruction.h"
#include "heddle/lower/lower.h"
#include "heddle/ops/linalg.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// C = A * B for a GPU with mma, by the rules.
struct Product {
  Tensor a = placeholder({256, 128}, f16, "A"), b = placeholder({128, 256}, f16, "B"),
         c = ops::matmul(a, b);
  Schedule schedule{create_schedule({c}, Target::parse("cuda -gpu=a100"))};

  // The schedule whose steps that name `from` name `to`; "": they name none.
  Schedule renamed(const std::string& from, const std::string& to) const {
    Json json = schedule.to_json(), steps = Json::array();
    for (size_t i = 0; i < json.at("steps").size(); ++i) {
      const Json& step = json.at("steps").at(i);
      Json out = Json::array();
      for (size_t part = 0; part < step.size(); ++part) {
        const bool name = part == 5 && step.at(part).as_string() == from;
        if (!name || !to.empty()) out.push_back(name ? Json(to) : step.at(part));
      }
      steps.push_back(std::move(out));
    }
    json["steps"] = std::move(steps);
    return Schedule::from_json(json, ComputeDag({c}), schedule.target());
  }
  std::string cuda(const Schedule& s) const { return emit_cuda(lower_gpu(s, {a, b, c})); }
  std::string complaint(const std::string& from, const std::string& to) const {
    try {
      (void)cuda(renamed(from, to));
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::User);
      return e.what();
    }
    return "";
  }
};

TEST(NamedInstructions, StepsSayThem) {
  const Product p;
  EXPECT_THAT(p.schedule.to_text(), HasSubstr(", mma)\n"));
  EXPECT_THAT(p.schedule.to_text(), HasSubstr(", ldmatrix)\n"));
  EXPECT_EQ(p.renamed("mma", "mma").to_json().dump(), p.schedule.to_json().dump());
}

TEST(NamedInstructions, SchedulesWithoutNamesMeanTheSame) {
  const Product p;
  const std::string text = p.cuda(p.schedule);
  EXPECT_THAT(text, HasSubstr("mma_m16n8k16_f16_f32("));
  const Schedule unnamed = p.renamed("mma", "");
  EXPECT_THAT(unnamed.to_text(), Not(HasSubstr(", mma)")));
  EXPECT_EQ(p.cuda(unnamed), text);
  EXPECT_EQ(p.cuda(p.renamed("ldmatrix", "")), text);
}

TEST(NamedInstructions, LoopsOfAnotherInstructionAreRefusedWithTheReason) {
  const Product p;
  const std::string as_lanes = p.complaint("mma", "lanes");
  EXPECT_THAT(as_lanes, HasSubstr("as lanes: "));
  EXPECT_THAT(as_lanes, Not(HasSubstr("as mma")));
  EXPECT_THAT(p.complaint("ldmatrix", "mma"), HasSubstr("as mma: 2 loops, and not 3"));
  EXPECT_THAT(p.complaint("mma", "ldmatrix"), HasSubstr("as ldmatrix: "));
}

TEST(NamedInstructions, OfAnotherMachineAreRefused) {
  const Product p;
  EXPECT_THAT(p.complaint("mma", "wgmma"), HasSubstr("has no instruction 'wgmma'"));
  EXPECT_THAT(p.complaint("mma", "amx"), HasSubstr("has no instruction 'amx'"));
}

TEST(NamedInstructions, NamesThatThereAreNot) {
  const Product p;
  const std::string said = p.complaint("mma", "nma");
  EXPECT_THAT(said, HasSubstr("there is no instruction 'nma'"));
  EXPECT_THAT(said, HasSubstr("there are mma, wgmma, ldmatrix"));
}

TEST(NamedInstructions, TileOperationsHaveEntries) {
  EXPECT_EQ(instruction_of(tile::Mma{16, 8, 16}), &mma_instruction());
  EXPECT_EQ(instruction_of(tile::BulkStore{}), &tma_store_instruction());
  EXPECT_EQ(instruction_of(tile::BarrierWait{}), nullptr);
}

}  // namespace
}  // namespace heddle::testing

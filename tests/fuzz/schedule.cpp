// A schedule as JSON: {"declaration": name, "steps": Schedule::to_json}.
#include "heddle/schedule/schedule.h"

#include "fuzz/declarations.h"
#include "fuzz/fuzz_target.h"
#include "heddle/driver/build.h"
#include "heddle/support/error.h"

namespace heddle::fuzz {

void read_schedule(std::string_view bytes) {
  const Json input = Json::parse(bytes);
  const auto& declarations = sample_declarations();
  const auto known = declarations.find(input.at("declaration").as_string());
  if (known == declarations.end()) throw_user_error("there is no such declaration");
  const ComputeDag dag({known->second});
  const Target target = Target::parse("llvm -mcpu=skylake -threads=2");
  const Schedule schedule = Schedule::from_json(input.at("steps"), dag, target);
  const Json written = schedule.to_json();
  const Schedule again = Schedule::from_json(written, dag, target);
  HEDDLE_ICHECK(again.to_json() == written, "a schedule that was read is written as another");
  HEDDLE_ICHECK(again.to_text() == schedule.to_text(), "a schedule replays as another");
}

std::vector<std::string> schedule_seeds() {
  std::vector<std::string> seeds;
  for (const char* target : {"llvm -mcpu=skylake -threads=2", "cuda -gpu=h200"}) {
    for (const auto& [name, tensor] : sample_declarations()) {
      const Schedule schedule = create_schedule({tensor}, Target::parse(target));
      seeds.push_back(Json::object({{"declaration", name}, {"steps", schedule.to_json()}}).dump());
    }
  }
  return seeds;
}

}  // namespace heddle::fuzz

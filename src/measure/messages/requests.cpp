#include "measure/messages/requests.h"

#include "heddle/support/error.h"

namespace heddle::measuring {

const char* heddle_version() { return HEDDLE_VERSION; }

const char* to_string(WorkerKind kind) { return kind == WorkerKind::Cpu ? "cpu" : "cuda"; }

void from_name(const std::string& name, WorkerKind& kind) {
  if (name != "cpu" && name != "cuda") throw_user_error("there are no workers for '" + name + "'");
  kind = name == "cpu" ? WorkerKind::Cpu : WorkerKind::Cuda;
}

const char* to_string(ReferenceBy by) {
  switch (by) {
    case ReferenceBy::Naive: return "naive";
    case ReferenceBy::Vector: return "vector";
    case ReferenceBy::Default: break;
  }
  return "default";
}

void from_name(const std::string& name, ReferenceBy& by) {
  for (const ReferenceBy known : {ReferenceBy::Naive, ReferenceBy::Vector, ReferenceBy::Default}) {
    by = known;
    if (name == to_string(known)) return;
  }
  throw_user_error("there is no reference '" + name + "'");
}

Hello hello_from(const Json& json) {
  if (codec::kind_of(json, "do") != to_string(Verb::Hello))
    throw_user_error("the first message is no hello");
  // The versions come first, because another one has other keys.
  const std::string version = json.get_string("version", "of no version");
  if (json.get_int("protocol", 0) != kWorkerProtocol || version != heddle_version()) {
    throw_user_error("the tuner is of Heddle " + version + ", and its worker of " HEDDLE_VERSION,
                     {}, "name the worker of the same version by HEDDLE_WORKER=path");
  }
  return decode<Hello>(json);
}

}  // namespace heddle::measuring

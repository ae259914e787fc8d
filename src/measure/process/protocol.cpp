#include "measure/process/protocol.h"

#include "heddle/support/error.h"
#include "measure/process/channel.h"

namespace heddle::measuring {
namespace {

Json measure_json(const MeasureProtocol& p) {
  Json out = Json::object({{"min_repeats", p.min_repeats},
                           {"max_repeats", p.max_repeats},
                           {"min_seconds", p.min_seconds},
                           {"max_seconds", p.max_seconds},
                           {"relative_ci", p.relative_ci},
                           {"cutoff", p.cutoff},
                           {"timeout_seconds", p.timeout_seconds},
                           {"memory_limit_bytes", p.memory_limit_bytes},
                           {"check_output", p.check_output}});
  if (p.cold) out["cold"] = Json(*p.cold);
  return out;
}

MeasureProtocol measure_from(const Json& j) {
  MeasureProtocol p;
  p.min_repeats = static_cast<int>(j.at("min_repeats").as_int());
  p.max_repeats = static_cast<int>(j.at("max_repeats").as_int());
  p.min_seconds = j.at("min_seconds").as_double();
  p.max_seconds = j.at("max_seconds").as_double();
  p.relative_ci = j.at("relative_ci").as_double();
  p.cutoff = j.at("cutoff").as_double();
  p.timeout_seconds = j.at("timeout_seconds").as_double();
  p.memory_limit_bytes = j.at("memory_limit_bytes").as_int();
  p.check_output = j.at("check_output").as_bool();
  if (const Json* cold = j.find("cold")) p.cold = cold->as_bool();
  return p;
}

}  // namespace

Json to_json(const WorkerHello& hello) {
  Json out = Json::object({{"do", "hello"},
                           {"protocol", kWorkerProtocol},
                           {"version", HEDDLE_VERSION},
                           {"kind", hello.kind == WorkerKind::Cpu ? "cpu" : "cuda"},
                           {"memory_limit", hello.memory_limit_bytes},
                           {"measure", measure_json(hello.measure)}});
  if (hello.node) out["node"] = Json(*hello.node);
  return out;
}

WorkerHello hello_from_json(const Json& json) {
  if (json.get_string("do", "") != "hello") throw_user_error("the first message is no hello");
  const std::string& version = json.at("version").as_string();
  if (json.at("protocol").as_int() != kWorkerProtocol || version != HEDDLE_VERSION) {
    throw_user_error("the tuner is of Heddle " + version + ", and its worker of " HEDDLE_VERSION,
                     {}, "name the worker of the same version by HEDDLE_WORKER=path");
  }
  WorkerHello hello;
  const std::string& kind = json.at("kind").as_string();
  if (kind != "cpu" && kind != "cuda") throw_user_error("there are no workers for '" + kind + "'");
  hello.kind = kind == "cpu" ? WorkerKind::Cpu : WorkerKind::Cuda;
  hello.memory_limit_bytes = json.at("memory_limit").as_int();
  hello.measure = measure_from(json.at("measure"));
  if (const Json* node = json.find("node")) hello.node = node->as_string();
  return hello;
}

Json hello_answer() { return Json::object({{"started", HEDDLE_VERSION}}); }

}  // namespace heddle::measuring

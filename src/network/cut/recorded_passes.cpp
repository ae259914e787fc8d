#include "network/cut/recorded_passes.h"

#include <algorithm>

#include "driver/records_may_answer.h"
#include "heddle/network/pass_records.h"
#include "heddle/records/record_log.h"
#include "heddle/records/tophub.h"
#include "heddle/support/error.h"
#include "support/log.h"

namespace heddle {
namespace {

constexpr const char* kTemplate = "passes";  // Record::template_name of such a record

}  // namespace

const std::string* passes_in(const Record& record) {
  if (record.template_name != kTemplate) return nullptr;
  const Json* list = record.config.find("passes");
  return list && list->is_string() ? &list->as_string() : nullptr;
}

void record_passes(const Network& network, const std::string& subject, double seconds,
                   const std::string& log) {
  const TuneTask& first = network.tasks().at(0);
  Record r = make_record(first.name, first.tmpl, first.tmpl.default_config());
  r.subject = subject + " choices about the graph";
  r.structural_hash = ComputeDag(network.outputs()).structural_hash();
  // Such a record answers for its own declaration, and is no neighbour of other shapes.
  r.shape_class.clear();
  r.extents.clear();
  r.template_name = kTemplate;
  r.template_version = 0;
  r.config = Json::object({{"passes", to_string(network.pass_options())}});
  r.steps = Json::object();
  r.seconds = {seconds};
  r.flops = r.bytes = 0;
  r.verdict = Verdict::Chosen;
  r.protocol = "whole calls in turns with the usual choices";
  RecordLog(log).append(r);
}

namespace network {

std::optional<RecordedPasses> recorded_passes(const std::vector<Tensor>& declared,
                                              const Target& target,
                                              const AutoSchedulerOptions& options, int64_t memory) {
  if (!driver::records_may_answer(options)) return std::nullopt;
  const std::shared_ptr<const RecordDatabase> known = tophub(options.record_log);
  const auto is_list = [](const Record& r) { return passes_in(r) != nullptr; };
  if (std::none_of(known->records().begin(), known->records().end(), is_list)) return std::nullopt;
  for (const Record* r : known->ranked(ComputeDag(declared).structural_hash(), target)) {
    if (!is_list(*r)) continue;
    try {
      RecordedPasses found{parse_passes(*passes_in(*r)), describe(*r)};
      if (found.options.memory == memory) return found;
    } catch (const Error& e) {  // a log may contain anything
      if (e.kind != ErrorKind::User) throw;
      log_line("records", 1, describe(*r) + " skipped: " + e.message);
    }
  }
  return std::nullopt;
}

}  // namespace network
}  // namespace heddle

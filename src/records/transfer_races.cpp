#include "records/transfer_races.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "heddle/support/error.h"
#include "records/object_reader.h"

namespace heddle::records {
namespace {

// The fewest races of a proof, the least geometric mean of their gains, and the least gain of each. Five
// races proved transfers of subjects that were left out which then lost 7 and 8 %
// (docs/measurements/tuning.md).
constexpr int kFewest = 8;
constexpr double kLeastMean = 1.02, kLeastGain = 0.97;
constexpr const char* kSchema = "heddle-transfers";

Transfer read_race(const Json& json) {
  const ObjectReader in(json, "a race");
  in.only({"subject", "target", "template", "from", "sizes", "threads", "chip", "agreed", "gain"});
  Transfer t;
  t.subject = in.text("subject", "");
  t.target = in.of("target", [](const Json& j) { return Target::parse(j.as_string()); });
  t.template_name = in.of("template", [](const Json& j) { return j.as_string(); });
  t.from = in.text("from", "");
  t.by = {in.amount("sizes"), in.amount("threads"), in.amount("chip")};
  t.agreed = in.of("agreed", [](const Json& j) { return j.as_bool(); });
  (void)in.need("gain");
  t.gain = in.amount("gain");
  return t;
}

Transfers read_head(const Json& json) {
  const ObjectReader in(json, "the first line");
  in.of("schema", [](const Json& j) {
    if (j.as_string() != kSchema)
      throw_user_error("it is '" + j.as_string() + "', and such a file has '" + kSchema + "'");
    return 0;
  });
  in.of("version", [](const Json& j) {
    if (j.as_int() != Transfers::kVersion)
      throw_user_error("it is " + j.dump() + ", and this Heddle reads version " +
                       std::to_string(Transfers::kVersion));
    return 0;
  });
  in.only({"schema", "version", "machine", "build", "model", "rank_correlation"});
  Transfers t;
  t.machine = in.text("machine", "");
  t.build = in.text("build", "");
  t.model = in.text("model", "");
  t.rank_correlation = in.number("rank_correlation");
  return t;
}

/// Whether two transfers differ in the same respects.
bool same_respects(const Nearness& a, const Nearness& b) {
  return (a.sizes > 0) == (b.sizes > 0) && (a.threads > 0) == (b.threads > 0) &&
         (a.chip > 0) == (b.chip > 0);
}

}  // namespace

std::string to_text(const Transfers& transfers) {
  std::string text = Json::object({{"schema", kSchema},
                                   {"version", Transfers::kVersion},
                                   {"machine", transfers.machine},
                                   {"build", transfers.build},
                                   {"model", transfers.model},
                                   {"rank_correlation", transfers.rank_correlation}})
                         .dump() +
                     "\n";
  for (const Transfer& t : transfers.races) {
    text += Json::object({{"subject", t.subject},
                          {"target", to_string(t.target)},
                          {"template", t.template_name},
                          {"from", t.from},
                          {"sizes", t.by.sizes},
                          {"threads", t.by.threads},
                          {"chip", t.by.chip},
                          {"agreed", t.agreed},
                          {"gain", t.gain}})
                .dump() +
            "\n";
  }
  return text;
}

Transfers parse_transfers(std::string_view text, const std::string& source) {
  Transfers transfers;
  int line = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    ++line;
    try {
      const Json json = Json::parse(text.substr(begin, end - begin), "line");
      if (line == 1) {
        transfers = read_head(json);
      } else {
        transfers.races.push_back(read_race(json));
      }
    } catch (const Error& e) {
      throw_user_error(source + ":" + std::to_string(line) + ": " + e.message, {},
                       "`heddle records transfers -o FILE` writes such a file");
    }
    begin = end + 1;
  }
  if (line == 0) throw_user_error(source + ": the file is empty");
  return transfers;
}

std::optional<TransferProof> proof_of_transfer(const std::vector<Transfer>& races,
                                               const std::string& template_name,
                                               const Nearness& by) {
  std::vector<std::pair<double, double>> nearest;  // distance, gain
  for (const Transfer& t : races) {
    if (t.agreed && t.template_name == template_name && same_respects(t.by, by))
      nearest.emplace_back(t.by.total(), t.gain);
  }
  std::sort(nearest.begin(), nearest.end());
  std::optional<TransferProof> proof;
  TransferProof sum{.least = std::numeric_limits<double>::infinity()};
  double logs = 0;
  for (size_t i = 0; i < nearest.size(); ++i) {
    const auto [distance, gain] = nearest[i];
    if (gain < kLeastGain) break;
    logs += std::log(gain);
    sum.races += 1;
    sum.least = std::min(sum.least, gain);
    sum.mean = std::exp(logs / sum.races);
    const bool last_of_its_distance = i + 1 == nearest.size() || nearest[i + 1].first > distance;
    if (last_of_its_distance && sum.races >= kFewest && sum.mean >= kLeastMean &&
        distance >= by.total())
      proof = sum;
  }
  return proof;
}

}  // namespace heddle::records

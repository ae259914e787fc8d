#include "bench/tables.h"

#include <cmath>

#include "common/figures.h"
#include "support/table.h"

namespace heddle::cli {
namespace {

bool ours(const Timing& t) {
  return t.name == "naive" || t.name == "static" || t.name == "rules" || t.name == "tuned";
}

const Timing* best_peer(const CaseResult& r) {
  const Timing* best = nullptr;
  for (const Timing& t : r.timings) {
    if (!ours(t) && (best == nullptr || t.ms < best->ms)) best = &t;
  }
  return best;
}

const Timing* timing(const CaseResult& r, const std::string& name) {
  for (const Timing& t : r.timings) {
    if (t.name == name) return &t;
  }
  return nullptr;
}

Ceiling ceiling_of(const CaseResult& r, Machine& machine) {
  if (r.bound == Bound::Compute) return machine.fma(r.threads, r.dtype);
  if (r.memory_bytes_per_second <= 0) return machine.bandwidth(r.bound, r.threads, r.bytes);
  return {r.memory_bytes_per_second, format_fixed(r.memory_bytes_per_second * 1e-9, 1) + " GB/s (" +
                                         r.memory_text + ", in the same rounds)"};
}

double work(const CaseResult& r) {
  return r.bound == Bound::Compute ? r.flops : static_cast<double>(r.bytes);
}

std::string rate(const CaseResult& r, double ms) { return figure(work(r) / ms * 1e-6); }

std::string share(const CaseResult& r, double ms, const Ceiling& ceiling) {
  if (ceiling.per_second <= 0) return "";
  return percent(work(r) / (ms * 1e-3) / ceiling.per_second);
}

}  // namespace

std::string type_and_threads(DataType dtype, int threads) {
  return to_string(dtype) + ", " + std::to_string(threads) +
         (threads == 1 ? " thread" : " threads");
}

std::string case_table(const CaseResult& r, Machine& machine) {
  const Ceiling ceiling = ceiling_of(r, machine);
  std::string out = r.subject + "  " + type_and_threads(r.dtype, r.threads) + ", " +
                    flops_text(r.flops) + ", " + bytes_text(r.bytes);
  if (!ceiling.text.empty()) out += "; peak " + ceiling.text;
  out += "\n";

  Table table({"", "ms", r.bound == Bound::Compute ? "GFLOP/s" : "GB/s", "of peak", "vs best peer",
               "implementation"});
  table.align_left(5);
  const Timing* peer = best_peer(r);
  for (const Timing& t : r.timings) {
    table.add_row({t.name, figure(t.ms), rate(r, t.ms), share(r, t.ms, ceiling),
                   peer != nullptr ? ratio(peer->ms / t.ms) : "", t.note});
  }
  out += table.to_string();
  for (const std::string& m : r.mismatches) out += "MISMATCH: " + m + "\n";
  for (const std::string& f : r.failures) out += "FAILED: " + f + "\n";
  if (!r.verified.empty()) out += "static agrees with " + join(r.verified) + "\n";
  if (!r.tuned_verified.empty()) out += "tuned agrees with " + join(r.tuned_verified) + "\n";
  for (const std::string& remark : r.remarks) out += remark + "\n";
  return out;
}

namespace {

/// The geometric mean of ratios over several results.
struct GeometricMean {
  double log_sum = 0;
  int count = 0;
  void add(double ratio) {
    log_sum += std::log(ratio);
    ++count;
  }
  std::string text(const std::string& what) const {
    if (count < 2) return "";
    return "geometric mean of " + what + ": " + ratio(std::exp(log_sum / count)) + " (" +
           std::to_string(count) + " results)\n";
  }
};

}  // namespace

std::string summary_table(const std::vector<CaseResult>& results, Machine& machine) {
  const bool any_tuned = std::any_of(results.begin(), results.end(), [](const CaseResult& r) {
    return timing(r, "tuned") != nullptr;
  });
  std::vector<std::string> header = {"subject", "type", "threads", "static ms",
                                     "rate",    "",     "of peak", "vs naive"};
  if (any_tuned) header.insert(header.end(), {"tuned ms", "vs static"});
  const size_t peer_column = header.size();
  header.insert(header.end(), {"best peer", "its ms", "vs peer"});
  if (any_tuned) header.push_back("tuned vs peer");
  Table table(header);
  table.align_left(1);
  table.align_left(5);
  table.align_left(peer_column);
  GeometricMean over_peer, tuned_over_peer, tuned_over_static;
  for (const CaseResult& r : results) {
    const Timing* own = timing(r, "static");
    const Timing* tuned = timing(r, "tuned");
    const Timing* naive = timing(r, "naive");
    const Timing* peer = best_peer(r);
    std::vector<std::string> row = {r.subject, to_string(r.dtype), std::to_string(r.threads)};
    if (own != nullptr) {
      row.insert(row.end(),
                 {figure(own->ms), rate(r, own->ms), r.bound == Bound::Compute ? "GFLOP/s" : "GB/s",
                  share(r, own->ms, ceiling_of(r, machine)),
                  naive != nullptr ? ratio(naive->ms / own->ms) : ""});
    } else {
      row.insert(row.end(), {r.mismatches.empty() ? "FAILED" : "MISMATCH", "", "", "", ""});
    }
    if (any_tuned) {
      const bool both = tuned != nullptr && own != nullptr;
      if (both) tuned_over_static.add(own->ms / tuned->ms);
      row.insert(row.end(), {tuned != nullptr ? figure(tuned->ms) : "",
                             both ? ratio(own->ms / tuned->ms) : ""});
    }
    if (peer != nullptr) {
      row.insert(row.end(), {peer->name, figure(peer->ms), ""});
      if (own != nullptr) {
        row.back() = ratio(peer->ms / own->ms);
        over_peer.add(peer->ms / own->ms);
      }
      if (tuned != nullptr) {
        row.push_back(ratio(peer->ms / tuned->ms));
        tuned_over_peer.add(peer->ms / tuned->ms);
      }
    }
    table.add_row(std::move(row));
  }
  return table.to_string() + over_peer.text("the best peer's time over ours") +
         tuned_over_peer.text("the best peer's time over tuned") +
         tuned_over_static.text("static over tuned");
}

Json to_json(const CaseResult& r) {
  Json times = Json::object();
  for (const Timing& t : r.timings) times[t.name] = t.ms;
  Json j = Json::object();
  j["subject"] = r.subject;
  j["dtype"] = to_string(r.dtype);
  j["threads"] = r.threads;
  j["flops"] = static_cast<int64_t>(r.flops);
  j["bytes"] = r.bytes;
  j["times_ms"] = std::move(times);
  if (r.memory_bytes_per_second > 0) j["memory_gb_per_s"] = r.memory_bytes_per_second * 1e-9;
  return j;
}

}  // namespace heddle::cli

#include "network/audit/node_bounds.h"

#include <algorithm>
#include <cmath>

#include "driver/roof.h"

namespace heddle::network {
namespace {

// Kernels of like shape: the factors that work and intensity may differ by.
constexpr double kLikeWork = 4, kLikeIntensity = 2;

bool within(double a, double b, double factor) {
  return a > 0 && b > 0 ? a <= factor * b && b <= factor * a : a == b;
}

double intensity(const AuditRow& row) { return row.bytes > 0 ? row.flops / row.bytes : 0; }

bool alike(const AuditRow& a, const AuditRow& b) {
  const auto of_a = static_cast<double>(a.nodes.size()), of_b = static_cast<double>(b.nodes.size());
  return a.template_name == b.template_name && a.alternative == b.alternative &&
         within(a.flops / of_a, b.flops / of_b, kLikeWork) &&
         within(a.bytes / of_a, b.bytes / of_b, kLikeWork) &&
         within(intensity(a), intensity(b), kLikeIntensity);
}

/// The time of the work of `row` at the rates of `like`: by arithmetic, or by bytes if that is
/// longer; not below the roof.
double at_rate_of(const AuditRow& row, const AuditRow& like) {
  const double by_flops = like.flops > 0 ? row.flops * like.seconds / like.flops : 0;
  const double by_bytes = like.bytes > 0 ? row.bytes * like.seconds / like.bytes : 0;
  return std::max({by_flops, by_bytes, row.roof_s});
}

}  // namespace

void set_work(AuditRow& row, const KernelWork& of_a_node) {
  const auto nodes = static_cast<double>(row.nodes.size());
  row.flops = nodes * of_a_node.flops;
  row.bytes = nodes * of_a_node.bytes;
  row.roof_s = nodes * driver::least_seconds(of_a_node);
}

void add_bound(AuditRow& row, AuditReference bound) {
  if (bound.seconds <= 0 || bound.seconds >= row.seconds) return;
  const auto at = std::find_if(row.bounds.begin(), row.bounds.end(),
                               [&](const auto& other) { return bound.seconds < other.seconds; });
  row.bounds.insert(at, std::move(bound));
}

size_t best_of_like(std::span<const AuditRow> rows, size_t row) {
  size_t best = row;
  double least = rows[row].seconds;
  for (size_t other = 0; other < rows.size(); ++other) {
    if (other == row || !alike(rows[row], rows[other])) continue;
    const double seconds = at_rate_of(rows[row], rows[other]);
    if (seconds <= 0 || seconds >= least) continue;
    best = other;
    least = seconds;
  }
  return best;
}

void set_bounds(std::vector<AuditRow>& rows) {
  double sum = 0;
  for (const AuditRow& row : rows) sum += row.seconds;
  for (size_t r = 0; r < rows.size(); ++r) {
    AuditRow& row = rows[r];
    row.share = sum > 0 ? row.seconds / sum : 0;
    add_bound(row, {AuditBound::Roof, row.roof_s, ""});
    const size_t like = best_of_like(rows, r);
    if (like != r) add_bound(row, {AuditBound::Like, at_rate_of(row, rows[like]), rows[like].name});
  }
}

}  // namespace heddle::network

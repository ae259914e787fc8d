#include "subjects/peer_set.h"

#include <algorithm>
#include <limits>

#include "heddle/runtime/timer.h"
#include "peers/peer_halide.h"
#include "peers/peer_libxsmm.h"
#include "peers/peer_openblas.h"

namespace heddle::cli {
namespace {

bool all_of_type(const std::vector<NDArray>& arrays, DataType dtype) {
  return std::all_of(arrays.begin(), arrays.end(),
                     [&](const NDArray& a) { return a.dtype() == dtype; });
}

double quick_seconds(const peers::OnednnOp& op) {
  op.run();
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 5; ++i) {
    const Timer timer;
    op.run();
    best = std::min(best, timer.elapsed_s());
  }
  return best;
}

}  // namespace

std::vector<std::string> peer_names() {
  std::vector<std::string> names = default_peers();
  names.insert(names.end(), {"mkl", "halide"});
  return names;
}
std::vector<std::string> default_peers() { return {"openblas", "onednn", "blis", "libxsmm"}; }

PeerSet::PeerSet(std::vector<NDArray> inputs, std::vector<std::string> wanted, int threads)
    : inputs_(std::move(inputs)), threads_(threads) {
  auto wants = [&](const char* name) {
    return std::find(wanted.begin(), wanted.end(), name) != wanted.end();
  };
  openblas_ = wants("openblas") && peers::openblas_available();
  onednn_ = wants("onednn") && peers::onednn_available();
  for (const auto& [name, peer] : peers::kCblasPeers) {
    if (wants(name) && peer().available) cblas_.emplace_back(name, &peer());
  }
  libxsmm_ = wants("libxsmm") && peers::libxsmm_available();
  halide_ = wants("halide") && peers::halide_available();
  if (openblas_) peers::openblas_set_threads(threads);
  for (const auto& [name, peer] : cblas_) peer->set_threads(threads);
  if (onednn_) peers::onednn_set_threads(threads);
}

bool PeerSet::all_f32() const { return all_of_type(inputs_, heddle::f32); }
bool PeerSet::all_f64() const { return all_of_type(inputs_, heddle::f64); }

NDArray PeerSet::keep(NDArray array) {
  kept_.push_back(array);
  return array;
}

void PeerSet::add_onednn(peers::OnednnOp op, const NDArray& out, Convert convert,
                         const std::string& name) {
  if (!op) {
    remarks_.push_back(name + ": " + op.error());
    return;
  }
  Peer peer;
  peer.name = name;
  peer.note = op.implementation();
  peer.run = [op] { op.run(); };
  peer.result = [op, out, convert = std::move(convert)] {
    op.read_back();
    return convert ? convert(out) : out;
  };
  peers_.push_back(std::move(peer));
}

void PeerSet::add_fastest_onednn(std::vector<Candidate> candidates, Convert convert) {
  Candidate* best = nullptr;
  double best_seconds = std::numeric_limits<double>::infinity();
  for (Candidate& c : candidates) {
    if (!c.op) continue;
    const double seconds = quick_seconds(c.op);
    if (seconds < best_seconds) {
      best_seconds = seconds;
      best = &c;
    }
  }
  if (best == nullptr) {
    if (!candidates.empty()) remarks_.push_back("onednn: " + candidates.front().op.error());
    return;
  }
  add_onednn(best->op, best->out, std::move(convert));
  if (!best->note.empty()) peers_.back().note += ", " + best->note;
}

NDArray permuted(const NDArray& x, const std::vector<int>& perm) {
  const Extents strides = x.strides();
  Extents shape, step;
  for (const int axis : perm) {
    shape.push_back(x.shape()[static_cast<size_t>(axis)]);
    step.push_back(strides[static_cast<size_t>(axis)]);
  }
  NDArray out = NDArray::empty(shape, x.dtype());
  const float* from = x.data<float>();
  float* to = out.data<float>();
  Extents at(shape.size(), 0);
  int64_t offset = 0;
  for (int64_t i = 0; i < out.size(); ++i) {
    to[i] = from[offset];
    for (size_t d = shape.size(); d-- > 0;) {
      offset += step[d];
      if (++at[d] < shape[d]) break;
      offset -= step[d] * shape[d];
      at[d] = 0;
    }
  }
  return out;
}

}  // namespace heddle::cli

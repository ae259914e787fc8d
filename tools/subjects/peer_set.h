// The other libraries' ways to compute one subject, on the same inputs.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "heddle/runtime/ndarray.h"
#include "peers/peer_cblas.h"
#include "peers/peer_onednn.h"

namespace heddle::cli {

struct Peer {
  std::string name;  ///< the key in the results: "openblas", "onednn"
  std::string note;  ///< which of its implementations, for the table
  std::function<void()> run;
  /// After run(): what the first output of the subject should be, in our layout. Null: the peer
  /// does something that cannot be compared.
  std::function<NDArray()> result;
};

/// A subject adds its peers to one of these. It owns what they work on, so it must outlive them.
class PeerSet {
 public:
  /// Sets the thread count of the libraries: it holds for all that is added and run afterwards.
  PeerSet(std::vector<NDArray> inputs, std::vector<std::string> wanted, int threads);

  const NDArray& input(int i) const { return inputs_.at(static_cast<size_t>(i)); }
  /// Most peers know f32 only.
  bool all_f32() const;
  bool all_f64() const;
  const float* f32(int i) const { return input(i).data<float>(); }
  bool openblas() const { return openblas_; }  ///< wanted and there
  bool onednn() const { return onednn_; }
  /// BLIS and MKL, with their names.
  const std::vector<std::pair<std::string, const peers::CblasPeer*>>& cblas() const {
    return cblas_;
  }
  bool libxsmm() const { return libxsmm_; }
  bool halide() const { return halide_; }
  int threads() const { return threads_; }
  /// Keeps an array that a peer was given a pointer to.
  NDArray keep(NDArray array);

  void add(Peer peer) { peers_.push_back(std::move(peer)); }
  void remark(std::string text) { remarks_.push_back(std::move(text)); }

  using Convert = std::function<NDArray(const NDArray&)>;
  /// `out` is what the op writes; `convert` makes our layout of it.
  void add_onednn(peers::OnednnOp op, const NDArray& out, Convert convert = {},
                  const std::string& name = "onednn");
  struct Candidate {
    std::string note;
    peers::OnednnOp op;
    NDArray out;
  };
  /// The fastest of them, by a few calls of each.
  void add_fastest_onednn(std::vector<Candidate> candidates, Convert convert = {});

  const std::vector<Peer>& peers() const { return peers_; }
  const std::vector<std::string>& remarks() const { return remarks_; }  ///< why some are missing

 private:
  std::vector<NDArray> inputs_, kept_;
  bool openblas_ = false, onednn_ = false, libxsmm_ = false, halide_ = false;
  std::vector<std::pair<std::string, const peers::CblasPeer*>> cblas_;
  int threads_ = 1;
  std::vector<Peer> peers_;
  std::vector<std::string> remarks_;
};

/// The names --peers takes, and those it stands for when it is not given: all but mkl, which no
/// package of Debian has, and halide, whose autoscheduler takes seconds for each subject.
std::vector<std::string> peer_names();
std::vector<std::string> default_peers();

/// The f32 array with axis i of the result being axis perm[i] of `x`; in plain loops.
NDArray permuted(const NDArray& x, const std::vector<int>& perm);

}  // namespace heddle::cli

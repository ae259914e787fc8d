// The images of a network: the stages between convolutions whose layout no caller sees.
#pragma once

#include <string>
#include <vector>

#include "heddle/dag/compute_dag.h"

namespace heddle::network {

/// How the elements [n, c, y, x] of an image lie in memory.
enum class ImageLayout : char {
  Declared,      ///< [n, c, y, x]
  ChannelsLast,  ///< [n, y, x, c]
};

/// Whether a stage with these channels reads an image by groups: the channel that `a` reads is a
/// quotient of its own, times a constant.
bool reads_groups(const Access& a, const Axis& channel);

/// Which stages are images with the channels in their second dimension. A stage takes part where it
/// is an image beside a convolution (also one of channels or of groups alone), or beside another
/// such stage, or sums up such an image. Arguments and results of the network do not.
class Images {
 public:
  static constexpr int kRank = 4;  // dimensions: batch, channels, rows, columns

  explicit Images(const ComputeDag& dag);

  const ComputeDag& dag() const { return dag_; }
  bool chosen(int s) const { return chosen_[static_cast<size_t>(s)] != 0; }
  int count() const;

  /// The rows and columns of an image as the name of a place; those of the image itself where `s`
  /// pads it.
  std::string size_of(int s) const;

  /// The images that `s` shares its channels with, as the number of one of them: a stage that
  /// computes each channel from the same channel of other images is in their group. A copy would
  /// be needed between two layouts there, while a convolution that sums over all channels may read
  /// one layout and store another.
  int group_of(int s) const;

 private:
  bool convolves(int s) const;
  bool convolves_channels(int s) const;
  bool may_change(int s) const;
  bool is_one_pixel(int s) const;
  void choose(int s);
  void leave_results();
  void find_groups();
  template <class F>
  bool all_reads(int s, int reader, F holds) const;
  bool reads_image(int s, int reader) const;
  bool follows_pixel(int s, int reader) const;
  bool sums_up(int s, int reader) const;

  const ComputeDag& dag_;
  std::vector<char> chosen_;
  std::vector<int> parent_;  ///< towards the first stage of the group
};

}  // namespace heddle::network

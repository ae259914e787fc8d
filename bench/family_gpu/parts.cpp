#include "family_gpu/parts.h"

#include <algorithm>
#include <atomic>
#include <thread>

namespace heddle::bench {

std::vector<Tensor> Subject::outputs() const {
  std::vector<Tensor> out;
  for (const Tensor& t : args) {
    if (!t.op()->is_placeholder()) out.push_back(t);
  }
  return out;
}

Instance Subject::at(const std::vector<int64_t>& sizes) const {
  std::vector<SizeValue> values;
  for (size_t i = 0; i < sizes.size(); ++i) values.emplace_back(dims[i], sizes[i]);
  return at_sizes(outputs(), values);
}

Subject subject_of(const std::string& text, DataType dtype) {
  cli::FamilySubject made = cli::family_subject(text, dtype);
  return {text + " " + to_string(dtype), std::move(made.dims), std::move(made.args)};
}

std::string sizes_text(const std::vector<int64_t>& sizes) {
  std::string text;
  for (const int64_t n : sizes) text += (text.empty() ? "" : "x") + std::to_string(n);
  return text;
}

std::vector<NDArray> arrays_of(const std::vector<Tensor>& args) {
  std::vector<NDArray> out;
  for (const Tensor& t : args) {
    out.push_back(t.op()->is_placeholder() ? NDArray::random(t.extents(), t.dtype(), out.size() + 1)
                                           : NDArray::zeros(t.extents(), t.dtype()));
  }
  return out;
}

std::vector<NDArray> on_gpu(const std::vector<NDArray>& arrays) {
  std::vector<NDArray> out;
  for (const NDArray& a : arrays) out.push_back(a.to_device(Device::cuda()));
  return out;
}

void in_threads(size_t count, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next{0};
  std::vector<std::thread> threads;
  const size_t most = std::max(1U, std::thread::hardware_concurrency());
  for (size_t t = 0; t < std::min(most, count); ++t) {
    threads.emplace_back([&] {
      for (size_t i = next++; i < count; i = next++) work(i);
    });
  }
  for (std::thread& t : threads) t.join();
}

}  // namespace heddle::bench

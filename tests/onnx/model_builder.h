// ONNX files written by hand, field by field: right ones and wrong ones.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "onnx/file/wire.h"

namespace heddle::testing {

using onnx::Message;

constexpr int kFloat = 1, kInt64 = 7, kString = 8, kBool = 9;

template <class T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

inline Message tensor_header(const std::string& name, int type, const std::vector<int64_t>& dims) {
  Message m;
  for (const int64_t d : dims) m.number(1, d);
  m.number(2, type);
  if (!name.empty()) m.text(8, name);
  return m;
}
inline Message tensor(const std::string& name, const std::vector<int64_t>& dims,
                      const std::vector<float>& values) {
  return tensor_header(name, kFloat, dims).text(9, raw(values));
}
inline Message tensor(const std::string& name, const std::vector<int64_t>& dims,
                      const std::vector<int64_t>& values) {
  return tensor_header(name, kInt64, dims).text(9, raw(values));
}
inline Message external_tensor(const std::string& name, const std::vector<int64_t>& dims,
                               const std::string& location, const std::string& offset,
                               const std::string& length) {
  Message m = tensor_header(name, kFloat, dims);
  for (const auto& [key, value] : std::vector<std::pair<std::string, std::string>>{
           {"location", location}, {"offset", offset}, {"length", length}})
    m.message(13, Message().text(1, key).text(2, value));
  return m.number(14, 1);
}

/// Extents as texts: "4", "batch", or "" for one that the file does not tell.
inline Message value_info(const std::string& name, const std::vector<std::string>& dims,
                          int type = kFloat) {
  Message shape;
  for (const std::string& d : dims) {
    Message dim;
    const bool digits = !d.empty() && d.find_first_not_of("-0123456789") == std::string::npos;
    if (digits)
      dim.number(1, std::stoll(d));
    else if (!d.empty())
      dim.text(2, d);
    shape.message(1, dim);
  }
  const Message tensor_type = Message().number(1, type).message(2, shape);
  return Message().text(1, name).message(2, Message().message(1, tensor_type));
}

inline Message attribute(const std::string& name, int64_t value) {
  return Message().text(1, name).number(3, value).number(20, 2);
}
inline Message attribute(const std::string& name, float value) {
  return Message().text(1, name).real(2, value).number(20, 1);
}
inline Message attribute(const std::string& name, const std::vector<int64_t>& values) {
  Message m = Message().text(1, name).number(20, 7);
  for (const int64_t v : values) m.number(8, v);
  return m;
}
/// A graph inside a node, such as the body of a Loop.
struct GraphParts {
  std::vector<Message> nodes, initializers, inputs, outputs;
};
inline Message graph_message(const GraphParts& parts, const std::string& name = "graph") {
  Message graph;
  for (const Message& m : parts.nodes) graph.message(1, m);
  graph.text(2, name);
  for (const Message& m : parts.initializers) graph.message(5, m);
  for (const Message& m : parts.inputs) graph.message(11, m);
  for (const Message& m : parts.outputs) graph.message(12, m);
  return graph;
}
inline Message attribute(const std::string& name, const GraphParts& graph) {
  return Message().text(1, name).message(6, graph_message(graph, name)).number(20, 5);
}
/// Stands for an attribute of the function whose body the node is in.
inline Message attribute_of_function(const std::string& name, const std::string& of) {
  return Message().text(1, name).text(21, of);
}

inline Message node(const std::string& name, const std::string& op,
                    const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                    const std::vector<Message>& attributes = {}, const std::string& domain = "") {
  Message m;
  for (const std::string& i : inputs) m.text(1, i);
  for (const std::string& o : outputs) m.text(2, o);
  m.text(3, name).text(4, op);
  for (const Message& a : attributes) m.message(5, a);
  if (!domain.empty()) m.text(7, domain);
  return m;
}

struct ModelParts : GraphParts {
  std::vector<Message> functions;
  int64_t opset = 18;
};

inline std::string model_bytes(const ModelParts& parts) {
  Message model = Message().number(1, 9);
  model.message(8, Message().text(1, "").number(2, parts.opset)).message(7, graph_message(parts));
  for (const Message& f : parts.functions) model.message(25, f);
  return model.bytes();
}

/// A folder of its own that goes with the test.
class ModelFolder {
 public:
  explicit ModelFolder(const std::string& name)
      : path_(std::filesystem::temp_directory_path() /
              ("heddle_onnx_" + name + "_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ModelFolder(const ModelFolder&) = delete;
  ModelFolder& operator=(const ModelFolder&) = delete;
  ~ModelFolder() { std::filesystem::remove_all(path_); }

  std::string write(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return (path_ / name).string();
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace heddle::testing

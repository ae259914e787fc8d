// Generates the C file of an exported network for a GPU: its tables and the functions around them.
#include "network/exported_text_parts.h"
#include "runtime/exported_network.h"

namespace heddle::network {
namespace {

constexpr const char* kRunOnGpu = R"(
EXPORT int @name@_run(void* network, const void* const* inputs, void* const* outputs) {
  return heddle_gpu_network_run(network, inputs, outputs);
}
EXPORT int @name@_run_on_gpu(void* network, const void* const* inputs, void* const* outputs, void* stream) {
  return heddle_gpu_network_run_on_gpu(network, inputs, outputs, stream);
}
)";

/// A string literal of the assembler, inside a string literal of C.
std::string assembler_string(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return "\"" + out + "\"";
}

/// The bytes of a file between the symbols `name` and `name`_end.
std::string file_text(const std::string& name, const std::string& path) {
  const std::string code = ".pushsection .rodata\n.balign 16\n" + name + ":\n.incbin " +
                           assembler_string(path) + "\n" + name + "_end:\n.byte 0\n.popsection\n";
  return "__asm__(" + c_string(code) + ");\nextern const unsigned char " + name + "[], " + name +
         "_end[] __attribute__((visibility(\"hidden\")));\n";
}

template <class Number>
std::string numbers_text(const std::string& type, const std::string& name,
                         const std::vector<Number>& numbers) {
  std::string text = "static const " + type + " " + name + "[] = {";
  for (const Number n : numbers) text += std::to_string(n) + ", ";
  return text + "0};\n";
}

std::string extents_text(const std::array<unsigned, 3>& e) {
  return "{" + std::to_string(e[0]) + ", " + std::to_string(e[1]) + ", " + std::to_string(e[2]) +
         "}";
}

/// The tensor maps as numbers, in the layout of heddle_launch::maps.
std::vector<int64_t> map_numbers(const std::vector<cuda::TensorMap>& maps) {
  std::vector<int64_t> out;
  for (const cuda::TensorMap& m : maps) {
    out.insert(out.end(), {m.buffer, m.element_bytes, m.row_dim, m.rows, std::ssize(m.shape)});
    out.insert(out.end(), m.shape.begin(), m.shape.end());
    out.push_back(std::ssize(m.windows));
    for (const auto& w : m.windows) out.insert(out.end(), {w.points, w.stride, w.first});
  }
  return out;
}

std::string launches_text(const std::string& name, const std::vector<cuda::Launch>& launches) {
  std::string text;
  for (size_t i = 0; i < launches.size(); ++i) {
    text += numbers_text("int32_t", name + "_buffers" + std::to_string(i), launches[i].buffers);
    text +=
        numbers_text("int64_t", name + "_maps" + std::to_string(i), map_numbers(launches[i].maps));
  }
  text += "static const heddle_launch " + name + "[] = {\n";
  for (size_t i = 0; i < launches.size(); ++i) {
    const cuda::Launch& l = launches[i];
    text += "  {" + c_string(l.kernel) + ", " + extents_text(l.grid) + ", " +
            extents_text(l.block) + ", " + std::to_string(l.dynamic_smem) + ", " +
            std::to_string(l.cluster) + ", " + std::to_string(l.overlaps ? 1 : 0) + ", " +
            std::to_string(l.buffers.size()) + ", " + name + "_buffers" + std::to_string(i) + ", " +
            std::to_string(l.maps.size()) + ", " + name + "_maps" + std::to_string(i) + "},\n";
  }
  return text + "  {0}};\n";
}

std::string kernels_text(const std::vector<ExportedGpuPlan::Kernel>& kernels) {
  std::string text, table = "static const heddle_gpu_kernel kernels[] = {\n";
  for (size_t k = 0; k < kernels.size(); ++k) {
    const ExportedGpuPlan::Kernel& kernel = kernels[k];
    const std::string n = std::to_string(k);
    text += file_text("code" + n, kernel.code_file);
    text += numbers_text("int64_t", "prepared" + n, kernel.prepared_bytes);
    text += launches_text("launches" + n, kernel.program.launches);
    text += launches_text("prepare" + n, kernel.program.prepare);
    text += "static const heddle_scratch scratch" + n + "[] = {";
    for (const cuda::Workspace& w : kernel.program.workspaces)
      text += "{" + std::to_string(w.bytes) + ", " + (w.zeroed ? "1" : "0") + "}, ";
    text += "{0, 0}};\n";
    table += "  {" + c_string(kernel.name) + ", " + c_string(kernel.program.arch) + ", code" + n +
             ", code" + n + "_end, " + std::to_string(kernel.args) + ", " +
             std::to_string(kernel.prepared_bytes.size()) + ", prepared" + n + ", " +
             std::to_string(kernel.program.launches.size()) + ", " +
             std::to_string(kernel.program.prepare.size()) + ", " +
             std::to_string(kernel.program.workspaces.size()) + ", launches" + n + ", prepare" + n +
             ", scratch" + n + "},\n";
  }
  return text + table + "  {0}};\n";
}

std::string steps_text(const std::vector<ExportedGpuPlan::Step>& steps) {
  std::string text, table = "static const heddle_gpu_step steps[] = {\n";
  for (size_t s = 0; s < steps.size(); ++s) {
    const std::string places = "places" + std::to_string(s);
    text += places_text(places, steps[s].places);
    table += "  {" + std::to_string(steps[s].kernel) + ", " +
             std::to_string(steps[s].places.size()) + ", " + places + "},\n";
  }
  return text + table + "  {0, 0, 0}};\n";
}

std::string weights_text(const ExportedGpuPlan& plan) {
  std::string text = "static const heddle_array arrays[] = {";
  for (const ExportedGpuPlan::Array& a : plan.arrays)
    text += "{" + std::to_string(a.at) + ", " + std::to_string(a.bytes) + "}, ";
  text += "{0, 0}};\n";
  std::string table = "static const heddle_preparation preparations[] = {";
  for (size_t p = 0; p < plan.preparations.size(); ++p) {
    const std::string name = "constants" + std::to_string(p);
    text += numbers_text("int32_t", name, plan.preparations[p].arrays);
    table += "{" + std::to_string(plan.preparations[p].kernel) + ", " + name + "}, ";
  }
  return text + table + "{0, 0}};\n";
}

}  // namespace

std::string tables_text(const ExportedGpuPlan& plan) {
  const ExportedInterface& i = plan.interface;
  std::string text =
      tensors_text(i) + kernels_text(plan.kernels) + steps_text(plan.steps) + weights_text(plan);
  text += "static const heddle_gpu_network_tables tables = {" + std::to_string(kExportedVersion) +
          ", " + c_string(i.name) + ", " + c_string(i.target);
  for (const size_t count : {i.inputs.size(), i.outputs.size()})
    text += ", " + std::to_string(count);
  text += ", tensors";
  for (const size_t count :
       {plan.kernels.size(), plan.steps.size(), plan.arrays.size(), plan.preparations.size()})
    text += ", " + std::to_string(count);
  text += ", kernels, steps, arrays, preparations, " + std::to_string(i.arena_bytes) + ", " +
          std::to_string(i.weights_bytes) + ", " + std::to_string(i.weights_hash) + "u};\n";
  return text + functions_text(i, "heddle_gpu_network") + with_name(kRunOnGpu, i.name);
}

}  // namespace heddle::network

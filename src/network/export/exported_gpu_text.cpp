// Generates the C file of an exported network for a GPU: its tables and the functions around them.
#include "network/export/exported_text_parts.h"
#include "runtime/exported/network.h"

namespace heddle::network {
namespace {

/// The calls, which take sizes only where the network has some.
std::string run_text(const ExportedInterface& i) {
  const std::string parameters = "(void* network, " + size_parameters(i.sizes) +
                                 "const void* const* inputs, void* const* outputs";
  const std::string given = given_text(i.sizes);
  std::string text = "EXPORT int @name@_run" + parameters + ") {\n" + given +
                     "  return heddle_gpu_network_run(network, given, inputs, outputs);\n}\n" +
                     "EXPORT int @name@_run_on_gpu" + parameters + ", void* stream) {\n" + given +
                     "  return heddle_gpu_network_run_on_gpu(network, given, inputs, outputs, "
                     "stream);\n}\n";
  return with_name(std::move(text), i.name) + size_functions_text(i);
}

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

/// Adds the number of items of an expression, and the two numbers of each.
void add_numbers(const cuda::SizeExpr& e, std::vector<int64_t>& out) {
  out.push_back(std::ssize(e.items));
  for (const cuda::SizeExpr::Item& item : e.items)
    out.insert(out.end(), {static_cast<int64_t>(item.op), item.value});
}

/// The tensor maps as numbers, in the layout of heddle_launch::maps.
std::vector<int64_t> map_numbers(const std::vector<cuda::TensorMap>& maps) {
  std::vector<int64_t> out;
  for (const cuda::TensorMap& m : maps) {
    out.insert(out.end(), {m.buffer, m.element_bytes, m.row_dim, m.rows, std::ssize(m.shape)});
    out.insert(out.end(), m.shape.begin(), m.shape.end());
    out.push_back(std::ssize(m.windows));
    for (const auto& w : m.windows) out.insert(out.end(), {w.points, w.stride, w.first});
    out.push_back(std::ssize(m.shape_of));
    for (const cuda::SizeExpr& e : m.shape_of) add_numbers(e, out);
  }
  return out;
}

/// The expressions as numbers, in the layout of heddle_launch::grid_of.
std::vector<int64_t> grid_numbers(const std::array<cuda::SizeExpr, 3>& grid) {
  std::vector<int64_t> out;
  for (const cuda::SizeExpr& e : grid) add_numbers(e, out);
  return out;
}

std::string launches_text(const std::string& name, const std::vector<cuda::Launch>& launches) {
  std::string text;
  for (size_t i = 0; i < launches.size(); ++i) {
    text += numbers_text("int32_t", name + "_buffers" + std::to_string(i), launches[i].buffers);
    text +=
        numbers_text("int64_t", name + "_maps" + std::to_string(i), map_numbers(launches[i].maps));
    text += numbers_text("int32_t", name + "_sizes" + std::to_string(i), launches[i].sizes);
    text += numbers_text("int64_t", name + "_grid" + std::to_string(i),
                         grid_numbers(launches[i].grid_of));
  }
  text += "static const heddle_launch " + name + "[] = {\n";
  for (size_t i = 0; i < launches.size(); ++i) {
    const cuda::Launch& l = launches[i];
    text += "  {" + c_string(l.kernel) + ", " + extents_text(l.grid) + ", " +
            extents_text(l.block) + ", " + std::to_string(l.dynamic_smem) + ", " +
            std::to_string(l.cluster) + ", " + std::to_string(l.overlaps ? 1 : 0) + ", " +
            std::to_string(l.buffers.size()) + ", " + name + "_buffers" + std::to_string(i) + ", " +
            std::to_string(l.maps.size()) + ", " + name + "_maps" + std::to_string(i) + ", " +
            std::to_string(l.sizes.size()) + ", " + name + "_sizes" + std::to_string(i) + ", " +
            name + "_grid" + std::to_string(i) + "},\n";
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
    const std::string number = std::to_string(s);
    std::string variants = "static const heddle_gpu_variant variants" + number + "[] = {";
    for (size_t v = 0; v < steps[s].variants.size(); ++v) {
      const ExportedGpuPlan::Variant& variant = steps[s].variants[v];
      const std::string places = "places" + number + "_" + std::to_string(v);
      text += places_text(places, variant.places);
      variants += "{" + std::to_string(variant.kernel) + ", " +
                  std::to_string(variant.places.size()) + ", " + places + "}, ";
    }
    text += variants + "{0, 0, 0}};\n" + questions_text("questions" + number, steps[s].tree);
    table += "  {" + std::to_string(steps[s].variants.size()) + ", variants" + number +
             ", questions" + number + "},\n";
  }
  return text + table + "  {0, 0, 0}};\n";
}

/// The extents of inputs and outputs that depend on the sizes.
std::string symbolic_text(const ExportedInterface& interface, size_t* count) {
  std::vector<KernelArg> tensors = interface.inputs;
  tensors.insert(tensors.end(), interface.outputs.begin(), interface.outputs.end());
  std::string text, table = "static const heddle_extent extents[] = {";
  *count = 0;
  for (size_t t = 0; t < tensors.size(); ++t) {
    for (const SymbolicExtent& e : tensors[t].symbolic) {
      const std::string name = "terms" + std::to_string((*count)++);
      std::vector<int64_t> terms;
      for (const SymbolicExtent::Term& term : e.terms)
        terms.insert(terms.end(), {term.size, term.factor});
      text += numbers_text("int64_t", name, terms);
      table += "{" + std::to_string(t) + ", " + std::to_string(e.dim) + ", " +
               std::to_string(e.constant) + ", " + std::to_string(e.terms.size()) + ", " + name +
               "}, ";
    }
  }
  return text + table + "{0, 0, 0, 0, 0}};\n";
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
  size_t extents = 0;
  std::string text = tensors_text(i) + sizes_text(i.sizes) + symbolic_text(i, &extents) +
                     kernels_text(plan.kernels) + steps_text(plan.steps) + weights_text(plan);
  text += "static const heddle_gpu_network_tables tables = {" + std::to_string(kExportedVersion) +
          ", " + c_string(i.name) + ", " + c_string(i.target);
  for (const size_t count : {i.inputs.size(), i.outputs.size()})
    text += ", " + std::to_string(count);
  text += ", tensors, " + std::to_string(i.sizes.size()) + ", " + std::to_string(extents) +
          ", sizes, extents";
  for (const size_t count :
       {plan.kernels.size(), plan.steps.size(), plan.arrays.size(), plan.preparations.size()})
    text += ", " + std::to_string(count);
  text += ", kernels, steps, arrays, preparations, " + std::to_string(i.arena_bytes) + ", " +
          std::to_string(i.weights_bytes) + ", " + std::to_string(i.weights_hash) + "u, " +
          (i.check_weights ? "1" : "0") + "};\n";
  return text + functions_text(i, "heddle_gpu_network") + run_text(i);
}

}  // namespace heddle::network

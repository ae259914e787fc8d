#include "network/export/library_text.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <utility>

#include "runtime/exported/network.h"

namespace heddle::network {
namespace {

/// A string literal of C. Names come from files, so they may contain any characters.
std::string c_string(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\' || c == '?') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 32 || static_cast<unsigned char>(c) > 126) {
      char octal[8];
      std::snprintf(octal, sizeof octal, "\\%03o", static_cast<unsigned char>(c));
      out += octal;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

/// A string literal with a piece for each line of the text.
std::string lines_text(const std::string& text) {
  std::string out = c_string("");
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    out += "\n  " + c_string(text.substr(at, end - at));
    at = end;
  }
  return out;
}

/// The arrays `tensors` and `sizes`. C has no empty arrays, so each ends with an unused element.
std::string tables_text(const LibrarySource& library) {
  std::string text, table = "static const heddle_tensor tensors[] = {\n";
  for (size_t i = 0; i < library.program.args.size(); ++i) {
    const KernelArg& arg = library.program.args[i];
    const std::string shape = "shape" + std::to_string(i);
    text += "static const int64_t " + shape + "[] = {";
    for (const int64_t extent : arg.shape) text += std::to_string(extent) + ", ";
    text += "0};\n";
    table += "  {" + c_string(arg.name) + ", " + c_string(to_string(arg.dtype)) + ", " +
             std::to_string(arg.shape.size()) + ", " + shape + ", " +
             std::to_string(library.tensor_bytes[i]) + "},\n";
  }
  text += table + "  {0}};\nstatic const heddle_size sizes[] = {\n";
  for (const ExportedSize& s : library.program.sizes) {
    text += "  {" + c_string(s.name) + ", " + std::to_string(s.lo) + ", " + std::to_string(s.hi) +
            ", " + std::to_string(s.multiple) + "},\n";
  }
  return text + "  {0}};\n";
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

/// The array `code`.
std::string code_text(const LibrarySource& library) {
  std::string text, table = "static const heddle_code code[] = {\n";
  for (size_t k = 0; k < library.code.size(); ++k) {
    const std::string name = "code" + std::to_string(k);
    if (library.for_gpu) {
      text += file_text(name, library.code[k]);
      table += "  {0, " + name + ", " + name + "_end},\n";
    } else {
      text += "int " + library.code[k] + "(void* const* parameters);\n";
      table += "  {" + library.code[k] + ", 0, 0},\n";
    }
  }
  return text + table + "  {0}};\n";
}

constexpr const char* kFunctions = R"(
#include <stddef.h>
#define EXPORT __attribute__((visibility("default")))

EXPORT void* @name@_open(const char* weights) {
  return heddle_network_open@on_gpu@(&library, weights);
}
EXPORT int @name@_run(void* network, @parameters@const void* const* inputs, void* const* outputs) {
  const int64_t given[] = {@given@0};
  return heddle_network_run(network, given, inputs, outputs);
}
EXPORT void @name@_close(void* network) { heddle_network_close(network); }
EXPORT int @name@_num_inputs(void) { return @inputs@; }
EXPORT int @name@_num_outputs(void) { return @outputs@; }
EXPORT const heddle_tensor* @name@_input(int index) {
  return index >= 0 && index < @inputs@ ? &tensors[index] : NULL;
}
EXPORT const heddle_tensor* @name@_output(int index) {
  return index >= 0 && index < @outputs@ ? &tensors[@inputs@ + index] : NULL;
}
EXPORT const char* @name@_error(void) { return heddle_network_error(); }
EXPORT const char* @name@_version(void) { return version; }
EXPORT const char* @name@_plan(void) { return plan; }
)";

constexpr const char* kSizes = R"(
EXPORT int @name@_num_sizes(void) { return @sizes@; }
EXPORT const heddle_size* @name@_size(int index) {
  return index >= 0 && index < @sizes@ ? &sizes[index] : NULL;
}
)";

constexpr const char* kSetThreads =
    "EXPORT int @name@_set_threads(int count) { return heddle_network_set_threads(count); }\n";

constexpr const char* kRunOnGpu =
    R"(EXPORT int @name@_run_on_gpu(void* network, @parameters@const void* const* inputs,
                             void* const* outputs, void* stream) {
  const int64_t given[] = {@given@0};
  return heddle_network_run_on_gpu(network, given, inputs, outputs, stream);
}
)";

std::string functions_text(const LibrarySource& library) {
  const ExportedProgram& p = library.program;
  const auto outputs =
      std::count_if(p.args.begin(), p.args.end(), [](const KernelArg& arg) { return arg.output; });
  std::string given;
  for (const std::string& name : size_names(p.sizes)) given += name + ", ";
  std::vector<std::pair<std::string, std::string>> values = usual_values(library);
  values.insert(values.end(), {{"@on_gpu@", library.for_gpu ? "_on_gpu" : ""},
                               {"@given@", given},
                               {"@inputs@", std::to_string(std::ssize(p.args) - outputs)},
                               {"@outputs@", std::to_string(outputs)},
                               {"@sizes@", std::to_string(p.sizes.size())}});
  return filled_in(std::string(kFunctions) + (p.sizes.empty() ? "" : kSizes) +
                       (library.for_gpu ? kRunOnGpu : kSetThreads),
                   values);
}

}  // namespace

std::vector<std::string> size_names(const std::vector<ExportedSize>& sizes) {
  std::vector<std::string> names;
  for (const ExportedSize& s : sizes) {
    // The beginning makes it another word than those of C and those of other parameters.
    std::string name = "size_";
    for (const char c : s.name) {
      const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0;
      name += plain ? c : '_';
    }
    const bool taken = std::find(names.begin(), names.end(), name) != names.end();
    names.push_back(taken ? name + "_" + std::to_string(names.size()) : name);
  }
  return names;
}

std::string filled_in(std::string text,
                      const std::vector<std::pair<std::string, std::string>>& values) {
  for (const auto& [mark, value] : values) {
    for (size_t at = text.find(mark); at != std::string::npos;
         at = text.find(mark, at + value.size()))
      text.replace(at, mark.size(), value);
  }
  return text;
}

std::vector<std::pair<std::string, std::string>> usual_values(const LibrarySource& library) {
  std::string upper = library.program.name, parameters;
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  for (const std::string& name : size_names(library.program.sizes))
    parameters += "int64_t " + name + ", ";
  return {{"@parameters@", parameters}, {"@NAME@", upper}, {"@name@", library.program.name}};
}

std::string source_text(const LibrarySource& library) {
  const std::string& name = library.program.name;
  return kExportedTablesText + tables_text(library) + code_text(library) +
         "static const char version[] = " + c_string(library.version) +
         ";\nstatic const char plan[] = " + lines_text(library.plan) +
         ";\nstatic const heddle_library library = {" + std::to_string(kExportedVersion) + ", " +
         c_string(name) + ",\n  " + c_string(to_json(library.program).dump()) + ", code};\n" +
         functions_text(library);
}

}  // namespace heddle::network

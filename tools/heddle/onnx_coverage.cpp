// heddle onnx: lists the operators of ONNX and which of them can be imported.
#include <iostream>
#include <map>

#include "commands.h"
#include "heddle/onnx/import.h"
#include "heddle/support/error.h"

namespace heddle::cli {

int run_onnx(const Request& options) {
  if (!onnx_available())
    throw_user_error("this build of Heddle has no ONNX import", {},
                     "install libprotobuf-dev, protobuf-compiler and libonnx-dev, and build again");
  if (!options.coverage) throw_user_error("nothing to show", {}, "add --coverage");
  std::vector<std::string> known, unknown;
  std::map<std::string, std::vector<std::string>> others;  // by domain
  for (const OnnxOperator& op : onnx_operators())
    (op.domain.empty() ? op.supported ? known : unknown : others[op.domain]).push_back(op.name);
  const auto lines = [](const std::vector<std::string>& names) {
    std::string text, line = " ";
    for (const std::string& name : names) {
      if (line.size() + name.size() > 98) {
        text += line + "\n";
        line = " ";
      }
      line += " " + name;
    }
    return text + line + "\n";
  };
  std::cout << known.size() << " operators are supported:\n"
            << lines(known) << unknown.size() << " are not:\n"
            << lines(unknown);
  for (const auto& [domain, names] : others)
    std::cout << names.size() << " of the domain " << domain << " are supported:\n" << lines(names);
  return 0;
}

}  // namespace heddle::cli

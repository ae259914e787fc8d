#include "heddle/network/export_network.h"

#include <algorithm>
#include <filesystem>

#include "heddle/support/error.h"
#include "network/cut/check_network.h"
#include "network/cut/kernel_records.h"
#include "network/cut/scattered_update.h"
#include "network/cut/task_schedules.h"
#include "network/export/export_parts.h"

namespace heddle {
namespace network {
namespace {

bool is_identifier(const std::string& name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  return !name.empty() && letter(name[0]) && std::all_of(name.begin(), name.end(), [&](char c) {
    return letter(c) || c == '_' || (c >= '0' && c <= '9');
  });
}

std::string host_architecture() {
#if defined(__aarch64__)
  return "aarch64";
#else
  return "x86_64";
#endif
}

/// A file's name has at most 255 bytes, and the names of the files are longer.
constexpr size_t kLongestName = 200;

void check(const ExportRequest& request) {
  if (request.name.size() > kLongestName)
    throw_user_error("the name of an exported network has " + std::to_string(request.name.size()) +
                         " characters: '" + request.name.substr(0, 40) + "...'",
                     {}, "its files are named after it: at most " + std::to_string(kLongestName));
  if (!is_identifier(request.name)) {
    throw_user_error(
        "'" + request.name + "' cannot be the name of an exported network", {},
        "its functions are named after it: a letter, then letters, digits and underscores");
  }
  if (request.arg_names.size() != request.args.size())
    throw_user_error("there are " + std::to_string(request.arg_names.size()) +
                         " names for the arguments of an exported network, and it has " +
                         std::to_string(request.args.size()),
                     {}, "name each input and output in the order of the arguments, or none");
  check_tensors(request.network, ComputeDag(request.network.outputs()), request.args);
  check_schedules(request.network.tasks(), request.schedules);
  const Target& target = request.target();
  if (target.is_cuda() || target.triple.empty() || target.triple.find(host_architecture()) == 0)
    return;
  throw_user_error("a network for '" + to_string(target) + "' cannot be linked on this machine", {},
                   "export it on a machine of that architecture");
}

ExportedNetwork move_to(const std::string& folder, const ExportScratch& scratch,
                        const ExportedProgram& made) {
  ExportedNetwork out;
  out.library = folder + "/lib" + made.name + ".so";
  out.header = folder + "/" + made.name + ".h";
  out.weights = folder + "/" + made.name + ".weights";
  for (const auto& [name, path] :
       {std::pair{"weights", out.weights}, {"header", out.header}, {"library", out.library}}) {
    std::error_code error;
    std::filesystem::rename(scratch.file(name), path, error);
    if (error) throw_user_error("cannot write '" + path + "': " + error.message());
  }
  out.library_bytes = static_cast<int64_t>(std::filesystem::file_size(out.library));
  out.weights_bytes = made.weights_bytes;
  out.arena_bytes = made.arena_bytes;
  out.steps = static_cast<int>(made.steps.size());
  return out;
}

}  // namespace
}  // namespace network

ExportedNetwork export_network(const Network& network, const std::vector<Tensor>& args,
                               const std::string& folder, const ExportNetworkOptions& options) {
  network::ExportRequest request{
      network,
      args,
      options.schedules.empty() ? network::chosen_schedules(network.tasks()) : options.schedules,
      options.name,
      options.arg_names,
      options.check_weights};
  if (request.arg_names.empty()) {
    for (const Tensor& t : args) request.arg_names.push_back(t.name());
  }
  network::check(request);
  request.variants = !options.kernels.empty() ? network::variants_of(network, options.kernels)
                     : options.schedules.empty()
                         ? network::usual_variants(network)
                         : network::task_variants(network, request.schedules);
  request.variants = network::with_places(network, std::move(request.variants));
  request.by_plan = network.plan() && options.kernels.empty() && options.schedules.empty();
  std::error_code error;
  std::filesystem::create_directories(folder, error);  // the next line reports a failure
  const network::ExportScratch scratch(folder);
  return network::move_to(folder, scratch, network::write_library(request, scratch).program);
}

}  // namespace heddle

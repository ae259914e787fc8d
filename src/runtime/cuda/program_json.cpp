#include "runtime/cuda/program_json.h"

#include <algorithm>
#include <span>
#include <vector>

#include "heddle/support/error.h"

namespace heddle::cuda {
namespace {

template <typename T>
std::vector<T> ints(const Json& list) {
  std::vector<T> out;
  for (const Json& j : list.elements()) out.push_back(static_cast<T>(j.as_int()));
  return out;
}

Json sizes_json(std::span<const SizeExpr> list) {
  Json out = Json::array();
  for (const SizeExpr& e : list) {
    Json items = Json::array();
    for (const SizeExpr::Item& item : e.items)
      items.push_back(Json::array({static_cast<int>(item.op), item.value}));
    out.push_back(std::move(items));
  }
  return out;
}

std::vector<SizeExpr> sizes_from(const Json& list) {
  std::vector<SizeExpr> out;
  for (const Json& items : list.elements()) {
    out.emplace_back();
    for (const Json& item : items.elements())
      out.back().items.push_back(
          {static_cast<SizeExpr::Op>(item.at(0).as_int()), item.at(1).as_int()});
  }
  return out;
}

Json maps_json(const std::vector<TensorMap>& maps) {
  Json out = Json::array();
  for (const TensorMap& m : maps) {
    Json windows = Json::array();
    for (const TensorMap::Window& w : m.windows)
      windows.push_back(Json::array_of(std::vector<int64_t>{w.points, w.stride, w.first}));
    out.push_back(Json::object({{"buffer", m.buffer},
                                {"element_bytes", m.element_bytes},
                                {"shape", Json::array_of(m.shape)},
                                {"row_dim", m.row_dim},
                                {"rows", m.rows},
                                {"windows", std::move(windows)},
                                {"shape_of", sizes_json(m.shape_of)}}));
  }
  return out;
}

std::vector<TensorMap> maps_from(const Json& list) {
  std::vector<TensorMap> out;
  for (const Json& j : list.elements()) {
    out.push_back({static_cast<int>(j.at("buffer").as_int()),
                   static_cast<int>(j.at("element_bytes").as_int()), ints<int64_t>(j.at("shape")),
                   static_cast<int>(j.at("row_dim").as_int()), j.at("rows").as_int()});
    for (const Json& w : j.at("windows").elements())
      out.back().windows.push_back({w.at(0).as_int(), w.at(1).as_int(), w.at(2).as_int()});
    out.back().shape_of = sizes_from(j.at("shape_of"));
  }
  return out;
}

Json launches_json(const std::vector<Launch>& launches) {
  Json out = Json::array();
  for (const Launch& l : launches) {
    out.push_back(Json::object({{"kernel", l.kernel},
                                {"grid", Json::array_of(l.grid)},
                                {"block", Json::array_of(l.block)},
                                {"shared_bytes", l.dynamic_smem},
                                {"cluster", l.cluster},
                                {"overlaps", l.overlaps},
                                {"buffers", Json::array_of(l.buffers)},
                                {"maps", maps_json(l.maps)},
                                {"sizes", Json::array_of(l.sizes)},
                                {"grid_of", sizes_json(l.grid_of)}}));
  }
  return out;
}

std::vector<Launch> launches_from(const Json& list) {
  std::vector<Launch> out;
  for (const Json& j : list.elements()) {
    Launch l;
    l.kernel = j.at("kernel").as_string();
    for (size_t d = 0; d < 3; ++d) {
      l.grid[d] = static_cast<unsigned>(j.at("grid").at(d).as_int());
      l.block[d] = static_cast<unsigned>(j.at("block").at(d).as_int());
    }
    l.dynamic_smem = static_cast<unsigned>(j.at("shared_bytes").as_int());
    l.cluster = static_cast<unsigned>(j.at("cluster").as_int());
    l.overlaps = j.at("overlaps").as_bool();
    l.buffers = ints<int>(j.at("buffers"));
    l.maps = maps_from(j.at("maps"));
    l.sizes = ints<int>(j.at("sizes"));
    const std::vector<SizeExpr> grid_of = sizes_from(j.at("grid_of"));
    if (grid_of.size() != l.grid_of.size()) throw_user_error("'grid_of' has another rank than 3");
    std::copy(grid_of.begin(), grid_of.end(), l.grid_of.begin());
    out.push_back(std::move(l));
  }
  return out;
}

}  // namespace

Json to_json(const Program& program) {
  Json workspaces = Json::array();
  for (const Workspace& w : program.workspaces)
    workspaces.push_back(Json::array({w.bytes, w.zeroed}));
  Json json = Json::object({{"arch", program.arch},
                            {"launches", launches_json(program.launches)},
                            {"prepare", launches_json(program.prepare)},
                            {"workspaces", std::move(workspaces)}});
  if (!program.in_part.empty()) json["in_part"] = Json::array_of(program.in_part);
  return json;
}

Program program_from_json(const Json& json) {
  Program program;
  program.arch = json.at("arch").as_string();
  program.launches = launches_from(json.at("launches"));
  program.prepare = launches_from(json.at("prepare"));
  for (const Json& w : json.at("workspaces").elements())
    program.workspaces.push_back({w.at(0).as_int(), w.at(1).as_bool()});
  if (const Json* in_part = json.find("in_part")) program.in_part = ints<int>(*in_part);
  return program;
}

}  // namespace heddle::cuda

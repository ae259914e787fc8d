#include "heuristics/asked_problems.h"

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <system_error>

#include "dag/declaration/declaration.h"
#include "heddle/records/tophub.h"
#include "heddle/support/error.h"
#include "heuristics/turned_off.h"
#include "support/files/file.h"
#include "support/files/line_log.h"
#include "support/hashing/hex.h"
#include "support/log.h"

namespace heddle::learning {
namespace {

/// A file that this process appends to.
struct AskedLog {
  explicit AskedLog(const std::string& path) : lines(path, "log of problems") {}
  LineLog lines;
  std::set<std::string> known;  ///< lines without their declarations
};

struct State {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<AskedLog>> logs;  ///< keyed by path
};
State& state() {
  static State s;
  return s;
}

std::string key_of(const std::string& heuristic, const std::string& problem) {
  return heuristic + " " + problem;
}

/// The lines of a file as JSON; `use` gets each with its number.
template <class F>
void each_line(const std::string& path, const F& use) {
  const std::string text = read_file(path);
  int number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) return;  // a killed process left it
    ++number;
    const std::string place = path + ":" + std::to_string(number);
    const Json line = Json::parse(text.substr(begin, end - begin), place);
    const Json* format = line.is_object() ? line.find("heddle_asked") : nullptr;
    if (format == nullptr || !format->is_int() || format->as_int() != 1)
      throw_user_error(place + ": this is no problem that a heuristic was asked about", {},
                       "HEDDLE_COLLECT writes such logs");
    use(line);
    begin = end + 1;
  }
}

/// The log of the target, opened once. The caller holds the mutex.
AskedLog& log_of(State& s, const Target& target) {
  const std::string folder = learned_folder();
  if (folder.empty())
    throw_user_error("there is no folder for the problems that HEDDLE_COLLECT logs", {},
                     "set HEDDLE_LEARNED to a folder");
  const std::string path = folder + "/" + asked_file_name(target);
  std::unique_ptr<AskedLog>& log = s.logs[path];
  if (log != nullptr) return *log;
  auto made = std::make_unique<AskedLog>(path);
  each_line(path, [&](const Json& line) {
    made->known.insert(key_of(line.at("heuristic").as_string(), line.at("problem").as_string()));
  });
  log = std::move(made);
  return *log;
}

}  // namespace

void check_asked_log(const Target& target) {
  check_heuristics_variables();
  if (collected_heuristics().empty()) return;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  log_of(s, target);
}

void log_asked(const ChoiceQuestion& question) {
  const std::string heuristic(question.heuristic);
  if (question.dag == nullptr || !collected_heuristics().contains(heuristic)) return;
  const ComputeDag& dag =
      question.dag->alternative().empty() ? *question.dag : question.dag->direct();
  const std::string problem = "asked@" + to_hex(dag.structural_hash());
  State& s = state();
  const std::lock_guard lock(s.mutex);
  try {
    AskedLog& log = log_of(s, question.target);
    if (!log.known.insert(key_of(heuristic, problem)).second) return;
    log.lines.append(Json::object({{"heddle_asked", 1},
                                   {"heuristic", heuristic},
                                   {"problem", problem},
                                   {"declaration", declaration_to_json(dag)}})
                         .dump());
  } catch (const Error& e) {  // an answer is no place for an error
    log_line("heuristics", 1, e.message);
  }
}

std::string asked_file_name(const Target& target) {
  return target.kind + "-" + target.chip() + ".asked";
}

std::vector<DrawnProblem> read_asked(const std::string& path, const std::string& heuristic) {
  std::vector<DrawnProblem> out;
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return out;
  std::set<std::string> seen;
  each_line(path, [&](const Json& line) {
    const std::string problem = line.at("problem").as_string();
    if (line.at("heuristic").as_string() != heuristic || !seen.insert(problem).second) return;
    out.push_back(
        {.id = problem, .outputs = declaration_from_json(line.at("declaration")).dag.outputs()});
  });
  return out;
}

}  // namespace heddle::learning

// heddle list: prints the subjects that can be explained and timed.
#include <algorithm>
#include <iostream>

#include "commands.h"
#include "heddle/support/error.h"
#include "subjects/subjects.h"
#include "support/edit_distance.h"
#include "support/table.h"

namespace heddle::cli {
namespace {

void print_kinds() {
  std::cout << "Subjects are kind:arguments; what is in brackets may be left out.\n";
  std::string group;
  for (const SubjectKind& kind : subject_kinds()) {
    if (kind.group != group) std::cout << "\n" << kind.group << "\n";
    group = kind.group;
    std::cout << "  " << kind.grammar.form() << "\n      " << kind.about << "\n      for example "
              << kind.grammar.example << "\n";
  }
}

void print_lists() {
  std::cout << "\nLists of workloads (heddle bench --workloads NAME; `heddle list NAME` shows "
               "the subjects)\n";
  Table table({"  name", "subjects", "what"});
  table.align_left(2);
  size_t total = 0;
  for (const WorkloadList& list : workload_lists()) {
    table.add_row({"  " + list.name, std::to_string(list.workloads.size()), list.about});
    total += list.workloads.size();
  }
  table.add_row({"  all", std::to_string(total), "all of these"});
  std::cout << table.to_string();
}

void print_kind(const SubjectKind& kind) {
  std::cout << kind.grammar.form() << "\n  " << kind.about << "\n\n";
  Table table({"argument", "default", "meaning"});
  table.align_left(1);
  table.align_left(2);
  for (const Parameter& p : kind.grammar.parameters) {
    std::string fallback = p.fallback.empty() ? "needed" : p.fallback;
    if (fallback[0] == '=') fallback = "that of " + fallback.substr(1);
    const std::string choices = p.choices.empty() ? "" : " (" + join(p.choices) + ")";
    table.add_row({p.name, fallback, p.help + choices});
  }
  std::cout << table.to_string() << "\nfor example heddle bench " << kind.grammar.example << "\n";
}

bool print_workloads(const std::string& name) {
  bool found = false;
  for (const WorkloadList& list : workload_lists()) {
    if (list.name != name && name != "all") continue;
    for (const Workload& w : list.workloads) {
      std::cout << w.subject;
      if (w.dtype != f32) std::cout << " --dtype " << to_string(w.dtype);
      std::cout << "\n";
    }
    found = true;
  }
  return found;
}

}  // namespace

int run_list(const Request& options) {
  if (options.name.empty()) {
    print_kinds();
    print_lists();
    return 0;
  }
  // A name may be both a kind of subject and a list (matmul).
  std::vector<std::string> names = {"all"};
  bool found = false;
  for (const SubjectKind& kind : subject_kinds()) {
    names.push_back(kind.grammar.kind);
    if (kind.grammar.kind != options.name) continue;
    print_kind(kind);
    found = true;
  }
  for (const WorkloadList& list : workload_lists()) {
    names.push_back(list.name);
    if (found && list.name == options.name) std::cout << "\nthe workloads of this name:\n";
  }
  found |= print_workloads(options.name);
  if (!found) {
    std::string hint = did_you_mean(options.name, names);
    if (!hint.empty()) hint += " ";
    throw_user_error("'" + options.name + "' is no kind of subject and no list of workloads", {},
                     hint + "`heddle list` shows all");
  }
  return 0;
}

}  // namespace heddle::cli

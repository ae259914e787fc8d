#include "selftest/coverage.h"

namespace heddle::selftest {

void Coverage::count(const Template& t, const Config& c) {
  for (size_t i = 0; i < t.knobs().size(); ++i) {
    const Knob& k = t.knobs()[i];
    std::string name = k.name.substr(k.name.rfind('.') + 1);
    if (name.rfind("pack_", 0) == 0) name = "pack_operand";
    Values& v = knobs[k.meta_template][name];
    v.offered.insert(k.values.begin(), k.values.end());
    v.drawn.insert(c.values[i]);
  }
}

void Coverage::count_alternative(const std::string& name) {
  ++alternatives[name.substr(0, name.find('@'))];
}

void Coverage::print(std::ostream& out) const {
  for (const auto& [name, drawn] : alternatives) out << "  " << name << ": " << drawn << " pairs\n";
  for (const auto& [name, of] : knobs) {
    out << "  " << name << "\n";
    for (const auto& [knob, v] : of) {
      out << "    " << knob << ": " << v.drawn.size() << " of " << v.offered.size() << " values";
      if (v.offered.size() <= 16) {
        out << " {";
        for (int64_t x : v.offered) out << " " << x << (v.drawn.count(x) ? "" : "(missing)");
        out << " }";
      }
      out << "\n";
    }
  }
}

}  // namespace heddle::selftest

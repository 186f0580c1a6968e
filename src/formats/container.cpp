#include "formats/container.h"

#include "core/errors/check.h"

namespace nibble {

const Tensor* Container::find(std::string_view name) const {
  const auto place = places_.find(name);
  return place == places_.end() ? nullptr : &tensors[place->second];
}

void Container::index() {
  places_.clear();
  for (size_t i = 0; i < tensors.size(); ++i) {
    const bool is_new = places_.try_emplace(tensors[i].name, i).second;
    NIBBLE_CHECK(is_new, "{} is listed twice", tensors[i].name);
  }
}

}  // namespace nibble

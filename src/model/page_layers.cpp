#include "model/page_layers.h"

#include <algorithm>
#include <array>

namespace nibble {

std::vector<int> page_layers(const Config& config) {
  std::array<int, 2> num_before{};
  std::vector<int> layers;
  for (const LayerKind kind : config.layer_kinds) layers.push_back(num_before[static_cast<size_t>(kind)]++);
  return layers;
}

int num_page_layers(const Config& config) {
  const std::vector<int> layers = page_layers(config);
  return layers.empty() ? 0 : 1 + *std::ranges::max_element(layers);
}

}  // namespace nibble

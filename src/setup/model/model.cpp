#include "setup/model/model.h"

namespace nibble {

Model open_model(const std::string& argument, const Places& places) {
  Model model{find_model(argument, places), {}, nullptr};
  if (model.source.synthetic) {
    model.config = *model.source.synthetic;
  } else {
    model.weights = std::make_shared<const Weights>(open_weights(model.source.path, places.access));
    model.config = model.weights->config;
  }
  return model;
}

Model describe_model(const std::string& argument, Places places) {
  places.access = FileAccess::kMap;
  return open_model(argument, places);
}

size_t weight_bytes(const Config& config) { return total_bytes(tensor_specs(config)); }

}  // namespace nibble

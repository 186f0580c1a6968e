#include "backend/cuda/chip/images.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <charconv>
#include <tuple>

#include "backend/cuda/chip/caps.h"
#include "core/errors/check.h"
#include "core/errors/error.h"
#include "core/program/log.h"
#include "core/text/take_until.h"

namespace nibble::cuda {
namespace {

bool runs_machine_code(const Image& image, int compute_capability) {
  if (image.is_specific) return compute_capability == image.compute_capability;
  return compute_capability / 10 == image.compute_capability / 10 &&
         compute_capability >= image.compute_capability;
}
bool runs_ptx(const Image& image, int compute_capability) {
  return image.is_specific ? compute_capability == image.compute_capability
                           : compute_capability >= image.compute_capability;
}

std::tuple<bool, bool, int> preference(const SelectedImage& choice) {
  return {!choice.is_compiled_at_start, choice.image.is_specific, choice.image.compute_capability};
}

std::string architecture(const Image& image) {
  return fmt::format("{}{}", image.compute_capability, image.is_specific ? "a" : "");
}

}  // namespace

std::vector<Image> parse_images(std::string_view architectures) {
  std::vector<Image> images;
  while (!architectures.empty()) {
    std::string_view text = take_until(architectures, ',');
    Image image;
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), image.compute_capability);
    NIBBLE_CHECK(error == std::errc{}, "architecture '{}'", text);
    text.remove_prefix(end - text.data());
    image.is_specific = text.starts_with('a');
    if (image.is_specific) text.remove_prefix(1);
    NIBBLE_CHECK(text.empty() || text == "-real" || text == "-virtual", "'{}' of an architecture", text);
    image.has_machine_code = text != "-virtual";
    image.has_ptx = text != "-real";
    images.push_back(image);
  }
  return images;
}

std::string describe(std::span<const Image> images) {
  std::string text;
  for (const Image& image : images) {
    const char* format = image.has_machine_code ? "sm_" : "PTX of compute_";
    text += fmt::format("{}{}{}{}", text.empty() ? "" : ", ", format, architecture(image),
                        image.has_machine_code && image.has_ptx ? " (also PTX)" : "");
  }
  return text;
}

std::optional<SelectedImage> choose_image(std::span<const Image> images, int compute_capability) {
  std::optional<SelectedImage> best;
  for (const Image& image : images) {
    const bool has_code = image.has_machine_code && runs_machine_code(image, compute_capability);
    if (!has_code && !(image.has_ptx && runs_ptx(image, compute_capability))) continue;
    const SelectedImage choice{image, !has_code};
    if (!best || preference(choice) > preference(*best)) best = choice;
  }
  return best;
}

std::span<const Image> images() {
  static const std::vector<Image> images = parse_images(NIBBLE_CUDA_IMAGES);
  return images;
}

std::string images_text() {
  return fmt::format("cuda {}.{}: {}", CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10, describe(images()));
}

void check_images(std::string_view gpu, int compute_capability, std::span<const Image> images,
                  bool may_compile) {
  const std::optional<SelectedImage> choice = choose_image(images, compute_capability);
  if (!choice)
    throw InputError(
        "--backend cuda: {} is sm_{}, and this program has {}: build it with "
        "-DNIBBLE_CUDA_ARCHITECTURES={}",
        gpu, compute_capability, describe(images), compute_capability);
  if (!choice->is_compiled_at_start) return;
  const std::string what =
      fmt::format("{} is sm_{}, and this program has {}: the driver compiles the PTX of compute_{}", gpu,
                  compute_capability, describe(images), architecture(choice->image));
  if (!may_compile)
    throw InputError("--jit off: {}; -DNIBBLE_CUDA_ARCHITECTURES={} builds the program for it", what,
                     compute_capability);
  log::warn("{}; this happens once and takes minutes", what);
}

}  // namespace nibble::cuda

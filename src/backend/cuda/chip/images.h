// An image is this program's kernels, compiled for one architecture (NIBBLE_CUDA_ARCHITECTURES). This file
// finds the image that a GPU runs. Images of activations (layout/activations.h) are something else.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::cuda {

struct Image {
  int compute_capability{0};                   // the capability that the code is compiled for; 90 is sm_90
  bool is_specific{false};                     // whether the code runs only on that capability, as sm_90a
  bool has_machine_code{true}, has_ptx{true};  // PTX: the driver compiles it when the program starts
  bool operator==(const Image&) const = default;
};

// Parses a list of architectures in CMake's syntax, but separated by commas: "80,90a-real". -real means
// machine code only, -virtual means PTX only.
std::vector<Image> parse_images(std::string_view architectures);
std::string describe(std::span<const Image> images);  // for example "sm_80 (also PTX), sm_90a"

// The image that the CUDA runtime selects for a GPU. Machine code runs on the compute capability that it is
// compiled for and, unless it is specific, on later ones of the same major version. If no machine code runs
// on the GPU, the driver compiles the PTX of an older chip.
struct SelectedImage {
  Image image;
  bool is_compiled_at_start{false};
};
std::optional<SelectedImage> choose_image(std::span<const Image> images, int compute_capability);

std::span<const Image> images();  // returns the images in this program
std::string images_text();        // for example "cuda 13.0: sm_80 (also PTX), sm_90a"

// Throws InputError if the GPU can run no image, or if the driver would have to compile one and may_compile
// is false. Logs a warning if the driver compiles, which takes minutes at the first start.
void check_images(std::string_view gpu, int compute_capability, std::span<const Image> images,
                  bool may_compile);

}  // namespace nibble::cuda

// An image is this program's kernels compiled for one architecture (NIBBLE_CUDA_ARCHITECTURES). This file
// finds the image that a GPU runs. It has nothing to do with images of activations (layout/activations.h).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::cuda {

struct Image {
  int compute_capability{0};                   // the compute capability of the code; 90: sm_90
  bool is_specific{false};                     // as in sm_90a: runs on that compute capability only
  bool has_machine_code{true}, has_ptx{true};  // the driver compiles PTX when it loads the image
  bool operator==(const Image&) const = default;
};

// Parses "80,90a-real": CMake's syntax, with commas. -real means machine code only, -virtual PTX only.
std::vector<Image> parse_images(std::string_view architectures);
std::string describe(std::span<const Image> images);  // for example "sm_80 (also PTX), sm_90a"

// The image that the CUDA runtime selects. Machine code runs on its compute capability and, without "a", on
// later ones of the same major version. If no machine code runs, the driver compiles PTX of an older chip.
struct SelectedImage {
  Image image;
  bool is_compiled_at_start{false};
};
std::optional<SelectedImage> choose_image(std::span<const Image> images, int compute_capability);

std::span<const Image> images();  // the images in this program
std::string images_text();        // for example "cuda 13.0: sm_80 (also PTX), sm_90a"

// Throws InputError if the GPU can run no image, or if the driver would have to compile one and may_compile
// is false. Warns if the driver compiles: the first start is slow, and the kernels are not tuned for the GPU.
void check_images(std::string_view gpu, int compute_capability, std::span<const Image> images,
                  bool may_compile);

}  // namespace nibble::cuda

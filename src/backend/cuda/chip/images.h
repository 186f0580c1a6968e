// Images: the kernels of this program as compiled for one architecture each (NIBBLE_CUDA_ARCHITECTURES), and
// which image a GPU runs. Unrelated to the images of activations in layout/activations.h.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::cuda {

// The kernels compiled for one architecture.
struct Image {
  int compute_capability{0};                   // 90: sm_90
  bool is_specific{false};                     // sm_90a: runs on that compute capability alone
  bool has_machine_code{true}, has_ptx{true};  // PTX is compiled by the driver ("just in time")
  bool operator==(const Image&) const = default;
};

// Parses "80,90a-real", CMake's syntax with commas instead of semicolons: -real is machine code only,
// -virtual PTX only.
std::vector<Image> parse_images(std::string_view architectures);
std::string describe(std::span<const Image> images);  // "sm_80 (also PTX), sm_90a"

// The image that the CUDA runtime selects for a GPU, and whether the driver has to compile it. Machine code
// without "a" runs on its compute capability and on later ones of the same major version, PTX on all later
// ones; machine code is preferred.
struct SelectedImage {
  Image image;
  bool is_compiled_at_start{false};
};
std::optional<SelectedImage> choose_image(std::span<const Image> images, int compute_capability);

std::span<const Image> images();  // the images in this program
std::string images_text();        // "cuda 13.0: sm_80 (also PTX), sm_90a"

// Throws InputError if the GPU can run none of the images, or if the driver would have to compile an image
// and may_compile is false. Logs a warning if the driver compiles: the first start takes long, and the
// kernels are not those made for the GPU.
void check_images(std::string_view gpu, int compute_capability, std::span<const Image> images,
                  bool may_compile);

}  // namespace nibble::cuda

#include "cli/measure/number_list.h"

#include <algorithm>
#include <charconv>

#include "core/error.h"

namespace nibble::cli {

std::vector<int> read_numbers(const std::vector<std::string>& values, std::string_view origin, int least,
                              int most) {
  std::vector<int> numbers;
  for (const std::string& text : values) {
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find(',', begin), text.size());
      int number{};
      const auto [stop, error] = std::from_chars(text.data() + begin, text.data() + end, number);
      if (error != std::errc{} || stop != text.data() + end || number < least || number > most)
        throw InputError("{} '{}': accepted are whole numbers from {} to {}, with commas between them",
                         origin, text, least, most);
      numbers.push_back(number);
      begin = end + 1;
    }
  }
  return numbers;
}

}  // namespace nibble::cli

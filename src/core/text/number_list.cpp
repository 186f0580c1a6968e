#include "core/text/number_list.h"

#include <charconv>

#include "core/errors/error.h"
#include "core/text/take_until.h"

namespace nibble {

std::vector<int> read_numbers(std::string_view list, std::string_view origin, int least, int most,
                              std::string_view what) {
  std::vector<int> numbers;
  bool has_more = true;
  for (std::string_view rest = list; has_more;) {
    has_more = rest.find(',') != std::string_view::npos;
    const std::string_view text = take_until(rest, ',');
    int number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size() || number < least || number > most)
      throw InputError("{} '{}': expected {} from {} to {}, separated by commas", origin, list, what, least,
                       most);
    numbers.push_back(number);
  }
  return numbers;
}

}  // namespace nibble

#include "grammar/languages/schema/formats.h"

#include <map>

namespace nibble::grammar {
namespace {

std::map<std::string, std::string, std::less<>> make_formats() {
  // Years from 0001, as in Python's datetime; 29 February in leap years only.
  const std::string date =
      R"((?:(?:000[1-9]|00[1-9]\d|0[1-9]\d\d|[1-9]\d{3})-)"
      R"((?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8])))"
      R"(|(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)-02-29))";
  const std::string time =
      R"((?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d))";
  const std::string clock_duration = R"(T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S))";
  const std::string octet = R"((?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d))",
                    ipv4 = "(?:" + octet + R"(\.){3})" + octet;
  // At most 62 characters. Two hyphens in a row would say that it is an internationalised name.
  const std::string label = "[A-Za-z0-9]{1,30}(?:-[A-Za-z0-9]{1,15}){0,2}";
  const std::string mailbox = R"([A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,20})";
  // RFC 3986.
  const std::string escape = "%[0-9A-Fa-f]{2}", pchar = "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|" + escape + ")";
  const std::string segments = "(?:/" + pchar + "*)*";
  const std::string rest = R"((?:\?(?:)" + pchar + "|[/?])*)?(?:#(?:" + pchar + "|[/?])*)?";
  const std::string authority = "(?:(?:[A-Za-z0-9._~!$&'()*+,;=:-]|" + escape +
                                ")*@)?(?:[A-Za-z0-9._~!$&'()*+,;=-]|" + escape + R"()*(?::\d*)?)";
  const std::string scheme = "[A-Za-z][A-Za-z0-9+.-]*:", pointer = "(?:/(?:[^~/]|~[01])*)*";
  std::string ipv6;  // :: stands for what is missing of eight groups
  const std::string hex = "[0-9A-Fa-f]{1,4}";
  for (int before = 1; before <= 6; ++before)
    ipv6 += "(?:" + hex + ":){" + std::to_string(before) + "}(?::" + hex + "){1," +
            std::to_string(7 - before) + "}|";
  ipv6 += "(?:" + hex + ":){7}" + hex + "|(?:" + hex + ":){1,7}:|:(?::" + hex + "){1,7}|::|::(?:[Ff]{4}:)?" +
          ipv4;

  std::map<std::string, std::string, std::less<>> formats{
      {"date", date},
      {"time", time},
      {"date-time", date + "T" + time},
      {"duration", R"(P(?:\d+W|(?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D)(?:)" + clock_duration + ")?|" +
                       clock_duration + ")"},
      {"email", mailbox + R"((?:\.)" + mailbox + "){0,2}@" + label + R"((?:\.)" + label + "){1,2}"},
      {"hostname", label + R"((?:\.)" + label + "){0,2}"},
      {"ipv4", ipv4},
      {"ipv6", ipv6},
      {"uuid", "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"},
      {"uri", scheme + "(?://" + authority + segments + "|/(?:" + pchar + "+" + segments + ")?|" + pchar +
                  "+" + segments + ")" + rest},
      {"uri-reference",
       "(?:" + scheme + ")?(?://" + authority + ")?(?:/(?:" + pchar + "+" + segments + ")?)?" + rest},
      {"json-pointer", pointer},
      {"relative-json-pointer", R"((?:0|[1-9]\d*)(?:#|)" + pointer + ")"},
  };
  for (auto& [name, regex] : formats) regex = "^(?:" + regex + ")$";
  return formats;
}

}  // namespace

std::optional<std::string> format_regex(std::string_view name) {
  static const auto formats = make_formats();
  const auto known = formats.find(name);
  return known == formats.end() ? std::nullopt : std::optional(known->second);
}

}  // namespace nibble::grammar

// Exports beyond HIP: what the replay worker asks. docs/internals.md describes them.
#include "hip/report.h"

#include <algorithm>
#include <cstdio>

#include "exec/listing.h"
#include "hip/device.h"
#include "hip/launch.h"

namespace asmevo::emulator::hip {
namespace {

constexpr size_t kListingContext = 2;  // instructions before and after each of a finding's

/// A JSON string; bytes that are not printable ASCII become \u escapes, so that the result is valid
/// whatever a code object calls its kernels.
std::string quote(const std::string& text) {
    std::string out = "\"";
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (c == '\n') {
            out += "\\n";
        } else if (byte < 0x20 || byte >= 0x7f) {
            char escape[8];
            std::snprintf(escape, sizeof escape, "\\u%04x", byte);
            out += escape;
        } else {
            out += c;
        }
    }
    return out + '"';
}

std::string optional_number(int value) {
    return value < 0 ? "null" : std::to_string(value);
}

/// The instructions around both of a finding's, each once, by address: [[offset, text], ...].
std::string format_listing(const Finding& finding, const KernelImage& kernel) {
    std::vector<ListingLine> lines = list_around(kernel, finding.key.pc, kListingContext);
    if (finding.key.other_pc != 0) {
        for (ListingLine& line : list_around(kernel, finding.key.other_pc, kListingContext)) {
            lines.push_back(std::move(line));
        }
    }
    std::ranges::sort(lines, {}, &ListingLine::address);
    const auto repeated = std::ranges::unique(lines, {}, &ListingLine::address);
    lines.erase(repeated.begin(), repeated.end());
    std::string out = "[";
    const char* separator = "";
    for (const ListingLine& line : lines) {
        out += separator;
        out += '[' + std::to_string(line.address - kernel.entry) + ", " + quote(line.text) + ']';
        separator = ", ";
    }
    return out + ']';
}

std::string format_finding(const Finding& finding, const KernelImage& kernel) {
    const bool has_other = finding.key.other_pc != 0;
    std::string out = "{\"rule\": " + quote(finding.key.rule);
    out += std::string(", \"class\": ") +
           (finding.severity == FindingClass::kError ? "\"error\"" : "\"caution\"");
    out += ", \"message\": " + quote(finding.message);
    out += ", \"where\": " + quote(finding.where);
    out += ", \"offset\": " + std::to_string(finding.key.pc - kernel.entry);
    out += ", \"instruction\": " + quote(finding.instruction);
    out += ", \"other_offset\": " +
           (has_other ? std::to_string(finding.key.other_pc - kernel.entry) : "null");
    out += ", \"other_instruction\": " + (has_other ? quote(finding.other_instruction) : "null");
    out += ", \"workgroup\": [" + std::to_string(finding.workgroup.x) + ", " +
           std::to_string(finding.workgroup.y) + ", " + std::to_string(finding.workgroup.z) + ']';
    out += ", \"wave\": " + std::to_string(finding.wave);
    out += ", \"lane\": " + optional_number(finding.lane);
    out += ", \"other_wave\": " + optional_number(finding.other_wave);
    out += ", \"count\": " + std::to_string(finding.count);
    return out + ", \"listing\": " + format_listing(finding, kernel) + '}';
}

}  // namespace

std::string format_report(const Function& function, const DispatchResult& result) {
    std::string out = "{\"kernel\": " + quote(function.metadata.name);
    out += std::string(", \"ok\": ") + (result.ok ? "true" : "false");
    out += std::string(", \"mfma\": ") + (result.fast_matrix ? "\"fast\"" : "\"exact\"");
    out += ", \"report\": " + quote(result.report);
    out += ", \"waves\": " + std::to_string(result.waves);
    out += ", \"wave_instructions\": " + std::to_string(result.wave_instructions);
    out += ", \"modelled_cycles\": " + std::to_string(result.modelled_cycles);
    out += ", \"profile\": [";
    const char* separator = "";
    for (const PcProfile& entry : result.profile) {
        out += separator;
        out += '[' + std::to_string(entry.offset) + ", " + std::to_string(entry.executions) + ", " +
               std::to_string(entry.modelled_stall_cycles) + ']';
        separator = ", ";
    }
    out += "], \"findings\": [";
    separator = "";
    for (const Finding& finding : result.findings) {
        out += separator + format_finding(finding, function.image);
        separator = ", ";
    }
    return out + "]}";
}

}  // namespace asmevo::emulator::hip

extern "C" __attribute__((visibility("default"))) const char* asmevo_emulator_last_report(void) {
    return asmevo::emulator::hip::last_report().c_str();
}

extern "C" __attribute__((visibility("default"))) int asmevo_emulator_set_option(
    const char* name, const char* value) {
    using namespace asmevo::emulator::hip;
    return name && value && set_dispatch_option(name, value) ? kSuccess : kInvalidValue;
}

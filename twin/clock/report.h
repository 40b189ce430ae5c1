// The timeline as JSON: totals under the names of the profiler's columns, waits, and a Chrome trace. All model figures.
#pragma once
#include <cstdio>
#include <string>

#include "chip.h"
#include "timeline.h"

namespace twin::clock {

inline std::string quoted(const std::string& text)
{
    std::string out = "\"";
    for (char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        out += c;
    }
    return out + "\"";
}

inline std::string number(double value) { return format("%.6g", value); }

inline std::string chips_json()
{
    std::string text;
    for (const Chip& chip : kChips) {
        text += (text.empty() ? "" : ", ") + quoted(chip.name) + format(": {\"cores\": %d, \"mhz\": ", chip.cores) +
                number(chip.mhz) + ", \"ddr_rate\": " + number(chip.ddr_rate) + "}";
    }
    return "{" + text + "}";
}

class Report {
public:
    Report(const Chip& chip, const Timeline& timeline, const Sites& sites)
        : chip_(chip), timeline_(timeline), sites_(sites)
    {
    }

    std::string json() const
    {
        return "{\"source\": \"model\", \"chip\": " + quoted(chip_.name) + ", \"mhz\": " + number(chip_.mhz) +
               ", \"groups\": " + std::to_string(timeline_.groups.size()) +
               ", \"cycles\": " + std::to_string(timeline_.cycles) + ", \"launch_ends\": [" + launch_ends() + "]" +
               ", \"duration_us\": " + number(us(timeline_.cycles)) + ", \"columns\": {" + columns() +
               "}, \"l2_bytes\": " + std::to_string(timeline_.l2_bytes) +
               ", \"hbm_bytes\": " + std::to_string(timeline_.hbm_bytes) + ", \"calls\": [" + calls() +
               "], \"cores\": [" + cores() + "]}";
    }

    // Of the groups that were traced. One process a core, one thread a pipe, times in us.
    void write_trace(const std::string& path) const
    {
        std::FILE* file = std::fopen(path.c_str(), "w");
        if (!file) throw Error("cannot write the trace to '" + path + "'");
        std::fputs("{\"otherData\": {\"source\": \"model\"}, \"displayTimeUnit\": \"ns\", \"traceEvents\": [", file);
        const char* comma = "\n";
        for (size_t g = 0; g < timeline_.groups.size(); ++g) {
            for (int c = 0; c < kCores; ++c) {
                if (!timeline_.groups[g][c].spans.empty()) write_core(file, int(g), c, comma);
            }
        }
        std::fputs("\n]}\n", file);
        if (std::fclose(file) != 0) throw Error("cannot write the trace to '" + path + "'");
    }

private:
    double us(double cycles) const { return cycles / chip_.mhz; }

    static std::string core_name(int group, int core)
    {
        return core == 0 ? format("AIC %d", group) : format("AIV %d.%d", group, core - 1);
    }

    std::string launch_ends() const
    {
        std::string text;
        for (int64_t end : timeline_.launch_ends) text += std::to_string(end) + ", ";
        return text + std::to_string(timeline_.cycles);
    }

    // Sum over the cores of one kind.
    template <class Value>
    double sum(bool aic, Value value) const
    {
        double total = 0;
        for (const auto& group : timeline_.groups) {
            for (int c = 0; c < kCores; ++c) {
                if ((c == 0) == aic) total += double(value(group[c]));
            }
        }
        return total;
    }

    // Ratios are of the time of the cores of that kind; times are averages over them.
    std::string columns() const
    {
        struct Column {
            const char* name;
            int track;
        };
        static constexpr Column kAic[] = {
            {"aic_mac", 1}, {"aic_scalar", kScalar}, {"aic_mte1", 2}, {"aic_mte2", 3}, {"aic_fixpipe", 5}};
        static constexpr Column kAiv[] = {{"aiv_vec", 0}, {"aiv_scalar", kScalar}, {"aiv_mte2", 3}, {"aiv_mte3", 4}};
        std::string text;
        const auto add = [&](bool aic, const char* time_name, const char* cycles_name, const Column* begin,
                             const Column* end) {
            const double cores = double(timeline_.groups.size()) * (aic ? 1 : kCores - 1);
            const double cycles = sum(aic, [](const CoreTimes& t) { return t.end; });
            text += quoted(time_name) + ": " + number(us(cycles / cores)) + ", " + quoted(cycles_name) + ": " +
                    format("%.0f", cycles);
            for (const Column* column = begin; column != end; ++column) {
                const double busy = sum(aic, [&](const CoreTimes& t) { return t.busy[column->track]; });
                text += format(", \"%s_time(us)\": %s, \"%s_ratio\": %s", column->name,
                               number(us(busy / cores)).c_str(), column->name, number(busy / cycles).c_str());
            }
        };
        add(true, "aicore_time(us)", "aic_total_cycles", std::begin(kAic), std::end(kAic));
        text += ", ";
        add(false, "aiv_time(us)", "aiv_total_cycles", std::begin(kAiv), std::end(kAiv));
        const double aic_cycles = sum(true, [](const CoreTimes& t) { return t.end; });
        text += ", \"cube_utilization(%)\": " + number(100 * aic_cycles / (double(timeline_.cycles) * chip_.cores));
        return text;
    }

    static std::string site_json(const Sites& sites, uint32_t site, const SiteTimes& times)
    {
        return "\"pipe\": " + quoted(kTrackName[times.track]) + ", \"call\": " + quoted(sites.name(site)) +
               ", \"place\": " + quoted(sites.place(site)) + ", \"calls\": " + std::to_string(times.calls) +
               ", \"busy\": " + std::to_string(times.busy) + ", \"waited\": " + std::to_string(times.waited);
    }

    // Every call site, summed over the cores of its kind.
    std::string calls() const
    {
        std::string text;
        for (const bool aic : {true, false}) {
            std::vector<SiteTimes> total;
            sum(aic, [&](const CoreTimes& t) {
                if (t.sites.size() > total.size()) total.resize(t.sites.size());
                for (size_t s = 0; s < t.sites.size(); ++s) {
                    if (t.sites[s].calls == 0) continue;
                    total[s].track = t.sites[s].track;
                    total[s].calls += t.sites[s].calls;
                    total[s].busy += t.sites[s].busy;
                    total[s].waited += t.sites[s].waited;
                }
                return 0;
            });
            for (size_t s = 0; s < total.size(); ++s) {
                if (total[s].calls == 0) continue;
                text += (text.empty() ? "{\"kind\": \"" : ", {\"kind\": \"") + std::string(aic ? "AIC" : "AIV") +
                        "\", " + site_json(sites_, uint32_t(s), total[s]) + "}";
            }
        }
        return text;
    }

    std::string cores() const
    {
        std::string text;
        for (size_t g = 0; g < timeline_.groups.size(); ++g) {
            for (int c = 0; c < kCores; ++c) {
                text += (text.empty() ? "{" : ", {") + std::string("\"core\": ") + quoted(core_name(int(g), c)) + ", " +
                        core_json(timeline_.groups[g][c]) + "}";
            }
        }
        return text;
    }

    // The longest wait with its place.
    std::string core_json(const CoreTimes& times) const
    {
        std::string text = "\"cycles\": " + std::to_string(times.end) + ", \"busy\": {";
        for (int t = 0; t < kTracks; ++t) {
            text += (t == 0 ? "" : ", ") + quoted(kTrackName[t]) + ": " + std::to_string(times.busy[t]);
        }
        text += "}, \"unfed\": {";
        for (int t = 0; t < kPipes; ++t) {
            text += (t == 0 ? "" : ", ") + quoted(kTrackName[t]) + ": " + std::to_string(times.unfed[t]);
        }
        text += "}, \"waits\": [";
        const char* comma = "";
        for (size_t s = 0; s < times.sites.size(); ++s) {
            if (times.sites[s].waited == 0) continue;
            text += comma + ("{" + site_json(sites_, uint32_t(s), times.sites[s]) + "}");
            comma = ", ";
        }
        return text + "]";
    }

    void write_core(std::FILE* file, int group, int core, const char*& comma) const
    {
        const int pid = group * kCores + core;
        std::fprintf(file, "%s{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": %d, \"args\": {\"name\": %s}}",
                     comma, pid, quoted(core_name(group, core)).c_str());
        comma = ",\n";
        for (const Span& span : timeline_.groups[group][core].spans) {
            std::fprintf(
                file,
                ",\n{\"ph\": \"X\", \"pid\": %d, \"tid\": \"%s\", \"ts\": %.4f, \"dur\": %.4f, \"cat\": \"%s\", "
                "\"name\": %s, \"args\": {\"place\": %s}}",
                pid, kTrackName[span.track], us(double(span.begin)), us(double(span.end - span.begin)),
                span.wait ? "wait" : "run", quoted(sites_.name(span.site)).c_str(),
                quoted(sites_.place(span.site)).c_str());
        }
    }

    const Chip& chip_;
    const Timeline& timeline_;
    const Sites& sites_;
};

}  // namespace twin::clock

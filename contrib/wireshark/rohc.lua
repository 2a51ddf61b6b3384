-- Wireshark dissector for Robust Header Compression with contexts: version 1 (RFC 3095, 3843, 4019, 6846) and 2 (RFC
-- 5225).
--
-- It follows every context as a decompressor does, rebuilds the headers, checks the CRC of each packet over them and
-- hands the packets to the dissectors of IP. Wireshark's own dissector of ROHC shows packets without their contexts.
--
--     tshark -X lua_script:contrib/wireshark/rohc.lua -r call.rohc.pcap
--     tshark -X lua_script:contrib/wireshark/rohc.lua -o rohcx.large_cids:TRUE -r trunk.rohc.pcap
--     cp contrib/wireshark/rohc.lua ~/.local/lib/wireshark/plugins/        # for good
--
-- ROHC packets are the records of link type USER0, as `bentpipe rohc compress` writes them, and the frames of PPP with
-- protocols 0x0003 and 0x0005 (RFC 3241), which say themselves how large CIDs are. "Decode As" takes UDP ports.
--
-- Whole, with CRC and packet: IR, IR-DYN, types 0, 1 and 2 with every extension in U-, O- and R-mode of RTP, UDP, ESP,
-- IP, UDP-Lite and RTP over UDP-Lite (v1); IR, co_repair, co_common and the short formats of the same headers (v2);
-- IR, IR-DYN, IR-CR, co_common and all formats of TCP with its options; Normal and IR of Uncompressed; FEEDBACK-1 and
-- -2. Lists of CSRCs and of IPv6 extension headers are among them; AH and GRE are so in v2. Not decoded, and marked
-- so: AH and GRE in lists of v1 and before TCP, minimal encapsulation, extension headers that change in IR-CR.
-- Segments are shown but not joined. Contexts are not repaired after failures. A packet of version 2 that comes late
-- is read against the packet before it, but not against an earlier state of slow fields.
--
-- Licence: MIT OR Apache-2.0, as the rest of bentpipe.

local rohc = Proto("rohcx", "Robust Header Compression with contexts")

local STATUS = { [0] = "Bad", [1] = "Good", [2] = "Unverified" }
local NAMES = {
    [0x0000] = "Uncompressed", [0x0001] = "RTP", [0x0002] = "UDP", [0x0003] = "ESP", [0x0004] = "IP", [0x0006] = "TCP",
    [0x0007] = "RTP/UDP-Lite", [0x0008] = "UDP-Lite", [0x0101] = "RTP (v2)", [0x0102] = "UDP (v2)",
    [0x0103] = "ESP (v2)", [0x0104] = "IP (v2)", [0x0107] = "RTP/UDP-Lite (v2)", [0x0108] = "UDP-Lite (v2)",
}
local ACKS = { [0] = "ACK", [1] = "NACK", [2] = "STATIC-NACK", [3] = "reserved" }
local MODES = { [0] = "none", [1] = "U", [2] = "O", [3] = "R" }
local RATIOS = { [0] = "none", [1] = "1/4", [2] = "1/2", [3] = "3/4" }

local f = {
    padding = ProtoField.bytes("rohcx.padding", "Padding"),
    cid = ProtoField.uint16("rohcx.cid", "CID"),
    profile = ProtoField.uint16("rohcx.profile", "Profile", base.HEX, NAMES),
    kind = ProtoField.string("rohcx.type", "Packet type"),
    header = ProtoField.bytes("rohcx.header", "Compressed header"),
    crc = ProtoField.uint8("rohcx.crc", "CRC", base.HEX),
    crc_bits = ProtoField.uint8("rohcx.crc.bits", "Bits of the CRC"),
    crc_status = ProtoField.uint8("rohcx.crc.status", "CRC status", base.DEC, STATUS),
    control_crc = ProtoField.uint8("rohcx.control_crc", "CRC-3 of the control fields", base.HEX),
    control_crc_status = ProtoField.uint8("rohcx.control_crc.status", "Status of the control CRC", base.DEC, STATUS),
    sn = ProtoField.uint32("rohcx.sn", "Sequence number"),
    ts = ProtoField.uint32("rohcx.ts", "RTP timestamp"),
    ts_stride = ProtoField.uint32("rohcx.ts_stride", "Timestamp stride"),
    marker = ProtoField.uint8("rohcx.marker", "RTP marker"),
    ip_id = ProtoField.uint16("rohcx.ip_id", "IP-ID of the innermost header", base.HEX),
    mode = ProtoField.uint8("rohcx.mode", "Mode", base.DEC, MODES),
    reorder = ProtoField.uint8("rohcx.reorder_ratio", "Reorder ratio", base.DEC, RATIOS),
    restored = ProtoField.bytes("rohcx.restored", "Restored header"),
    segment = ProtoField.bytes("rohcx.segment", "Segment"),
    feedback = ProtoField.bytes("rohcx.feedback", "Feedback"),
    ack = ProtoField.uint8("rohcx.feedback.ack", "Acknowledgement", base.DEC, ACKS),
    feedback_sn = ProtoField.uint16("rohcx.feedback.sn", "Low bits of the acknowledged number"),
    feedback_crc = ProtoField.uint8("rohcx.feedback.crc.status", "CRC status of the feedback", base.DEC, STATUS),
    note = ProtoField.string("rohcx.note", "Note"),
}
rohc.fields = f

local e_crc = ProtoExpert.new("rohcx.crc.bad", "Bad CRC", expert.group.CHECKSUM, expert.severity.ERROR)
local e_note = ProtoExpert.new("rohcx.problem", "ROHC problem", expert.group.MALFORMED, expert.severity.WARN)
rohc.experts = { e_crc, e_note }

rohc.prefs.large_cids = Pref.bool("Large CIDs", false, "CIDs of the channel are large, where the link does not say so")
rohc.prefs.version = Pref.enum("Profiles", 0, "Version of the channel's profiles; either has IR packets of its own CRC",
    { { 1, "By the CRC of IR packets", 0 }, { 2, "Version 1", 1 }, { 3, "Version 2", 2 } }, false)
rohc.prefs.show_packet = Pref.bool("Show restored packets", true, "Hand restored packets to the dissectors of IP")

-- Lua 5.2 has bit32, Wireshark's own library is bit, and Lua 5.3 has operators that others cannot even parse.
local xor = (bit32 or bit or {}).bxor or load("return function(a, b) return a ~ b end")()
local floor = math.floor

-- Bits [shift, shift + count) of a number below 2^53.
local function bits(value, shift, count)
    return floor(value / 2 ^ shift) % 2 ^ count
end

local function flag(value, shift)
    return bits(value, shift, 1) == 1
end

-- CRCs: least significant bit first, preset to ones, not inverted (RFC 4815 2.1).

local function table_of(polynomial)
    local made = {}
    for octet = 0, 255 do
        local crc = octet
        for _ = 1, 8 do
            local odd = crc % 2 == 1
            crc = floor(crc / 2)
            if odd then crc = xor(crc, polynomial) end
        end
        made[octet] = crc
    end
    return made
end

local CRCS = {
    [3] = { table_of(0x06), 0x07 }, [7] = { table_of(0x79), 0x7f }, [8] = { table_of(0xe0), 0xff },
}

-- The CRC of `width` bits over octets in tables, one after the other.
local function crc_of(width, ...)
    local made, crc = CRCS[width][1], CRCS[width][2]
    for _, part in ipairs({ ... }) do
        for index = 1, #part do crc = made[xor(crc, part[index])] end
    end
    return crc
end

-- Octets.

local function octets(data)
    local made = {}
    for index = 1, #data do made[index] = data:byte(index) end
    return made
end

local function slice(list, first, last)
    local made = {}
    for index = first, math.min(last, #list) do made[#made + 1] = list[index] end
    return made
end

local function append(list, more)
    for index = 1, #more do list[#list + 1] = more[index] end
    return list
end

local function u16(list, at)
    return list[at] * 256 + list[at + 1]
end

local function put(list, at, value, count)
    for index = count - 1, 0, -1 do
        list[at + index] = value % 256
        value = floor(value / 256)
    end
end

local function clone(value)
    if type(value) ~= "table" then return value end
    local made = {}
    for key, entry in pairs(value) do made[key] = clone(entry) end
    return made
end

local function refuse(why)
    error({ why = why }, 0)
end

local Reader = {}
Reader.__index = Reader

local function reader(list, at)
    return setmetatable({ list = list, at = at or 1 }, Reader)
end

function Reader:peek()
    return self.list[self.at] or refuse("truncated")
end

function Reader:uint(count)
    local value = 0
    for _ = 1, count do
        value = value * 256 + self:peek()
        self.at = self.at + 1
    end
    return value
end

function Reader:u8() return self:uint(1) end

function Reader:u16() return self:uint(2) end

function Reader:u32() return self:uint(4) end

function Reader:take(count)
    if self.at + count - 1 > #self.list then refuse("truncated") end
    local made = slice(self.list, self.at, self.at + count - 1)
    self.at = self.at + count
    return made
end

function Reader:left() return #self.list - self.at + 1 end

-- The value with the low `count` bits `low` in the interval that begins `p` before `reference` (RFC 3095 4.5.1).
local function lsb(reference, low, count, p, width)
    if count >= width then return low end
    local start = reference - p
    return (start + (low - start) % 2 ^ count) % 2 ^ width
end

-- Numbers of 16 bits, or 32 of ESP.
local function number_bits(profile) return profile % 256 == 3 and 32 or 16 end

local function distance(from, to, width)
    local ahead = (to - from) % 2 ^ width
    return ahead >= 2 ^ (width - 1) and ahead - 2 ^ width or ahead
end

local function swap(id) return id % 256 * 256 + floor(id / 256) end

local RTP = { [1] = true, [7] = true }
local LITE = { [7] = true, [8] = true }

local function folded(list, first, last)
    local sum = 0
    for at = first, last - 1, 2 do sum = sum + u16(list, at) end
    while sum > 0xffff do sum = sum % 0x10000 + floor(sum / 0x10000) end
    return sum
end

local function infer_ip(header, at, total)
    if floor(header[at] / 16) == 6 then
        put(header, at + 4, total - 40, 2)
        return
    end
    put(header, at + 2, total, 2)
    put(header, at + 10, 0, 2)
    put(header, at + 10, 0xffff - folded(header, at, at + 19), 2)
end

-- Version 1 -----------------------------------------------------------------------------------------------------------

-- Self-describing values of RFC 3095 4.5.6, and of RFC 5225 (`whole` bits behind 0xff).
local function sdvl(r, whole)
    local first = r:peek()
    if first < 0x80 then return r:u8(), 7 end
    if first < 0xc0 then return r:u16() % 0x4000, 14 end
    if first < 0xe0 then return r:uint(3) % 0x200000, 21 end
    if not whole then return r:u32() % 0x20000000, 29 end
    if first < 0xf0 then return r:u32() % 0x10000000, 28 end
    if first ~= 0xff then refuse("variable-length value") end
    r:u8()
    return r:uint(whole / 8), 32
end

-- Lists (RFC 3095 5.8). An item of an extension header has its own type in its first octet.
local function item_len(r, csrc)
    if csrc then return 4 end
    local kind = r:peek()
    if kind == 0 or kind == 43 or kind == 60 or kind == 135 then
        return 8 * ((r.list[r.at + 1] or refuse("truncated")) + 1)
    end
    refuse(kind == 51 and "AH in a list: not decoded" or kind == 47 and "GRE in a list: not decoded" or "list item")
end

local function read_mask(r)
    local first, mask = r:peek(), {}
    local value, count = 0, 7
    if first < 0x80 then value = r:u8() else value, count = r:u16() % 0x8000, 15 end
    for index = 1, count do mask[index] = flag(value, count - index) end
    return mask
end

local function read_entries(r, wide, first, count)
    local made = {}
    local function add(entry, width)
        made[#made + 1] = { index = entry % 2 ^ (width - 1), sent = flag(entry, width - 1) }
    end
    if wide then
        for _ = 1, count do add(r:u8(), 8) end
        return made
    end
    if first and count > 0 then add(first, 4) end
    while #made < count do
        local pair = r:u8()
        add(floor(pair / 16), 4)
        if #made < count then add(pair % 16, 4) end
    end
    return made
end

local function read_list(r, lists, csrc)
    local head = r:u8()
    local generation = flag(head, 5) and r:u8() or nil
    local form, wide = bits(head, 6, 2), flag(head, 4)
    local made = {}
    local function item(entry)
        if entry.sent then
            local octets_of = r:take(item_len(r, csrc))
            lists.table[entry.index] = octets_of
            return octets_of
        end
        return lists.table[entry.index] or refuse("list item that was never sent")
    end
    if form == 0 then
        local entries = read_entries(r, wide, nil, head % 16)
        for _, entry in ipairs(entries) do made[#made + 1] = item(entry) end
    else
        local base_list = lists.refs[r:u8()] or refuse("reference to an unknown list")
        local removed = form >= 2 and read_mask(r) or {}
        local kept = {}
        for index, entry in ipairs(base_list) do
            if not removed[index] then kept[#kept + 1] = entry end
        end
        if form == 2 then
            made = kept
        else
            local inserted, count = read_mask(r), 0
            for _, is_in in ipairs(inserted) do count = count + (is_in and 1 or 0) end
            local entries = read_entries(r, wide, head % 16, count)
            local next_kept, next_entry = 1, 1
            for _, is_in in ipairs(inserted) do
                if is_in then
                    made[#made + 1] = item(entries[next_entry])
                    next_entry = next_entry + 1
                elseif kept[next_kept] then
                    made[#made + 1] = kept[next_kept]
                    next_kept = next_kept + 1
                end
            end
            while kept[next_kept] do
                made[#made + 1] = kept[next_kept]
                next_kept = next_kept + 1
            end
        end
    end
    if generation then lists.refs[generation] = made end
    lists.current, lists.is_fresh = made, true
    lists.is_named = generation ~= nil or form ~= 0
end

local function new_lists() return { table = {}, refs = {}, current = {} } end

local v1 = {}

function v1.read_static(c, r)
    c.levels = {}
    repeat
        local first = r:u8()
        local version, level = bits(first, 4, 3), { lists = new_lists(), nbo = true, tos = 0, ttl = 0, id = 0 }
        if version == 4 then
            level.v, level.next = 4, r:u8()
            level.fixed = append({ 0x45, 0, 0, 0, 0, 0, 0, 0, 0, level.next, 0, 0 }, r:take(8))
        elseif version == 6 then
            local label = r:take(2)
            level.v, level.next = 6, r:u8()
            level.fixed = append({ 0x60, first % 16, label[1], label[2], 0, 0, level.next, 0 }, r:take(32))
        else
            refuse("IP version in a static chain")
        end
        c.levels[#c.levels + 1] = level
    until flag(first, 7) or level.next ~= 4 and level.next ~= 41
    if c.profile ~= 4 then c.transport = r:take(4) end
    if RTP[c.profile] then c.ssrc = r:take(4) end
end

function v1.read_ip_dynamic(level, r, is_ir)
    level.tos, level.ttl = r:u8(), r:u8()
    if level.v == 4 then
        level.id = r:u16()
        local flags = r:u8()
        if flags % 16 ~= 0 then refuse("reserved bits of a dynamic chain") end
        level.df, level.rnd, level.nbo, level.sid = flag(flags, 7), flag(flags, 6), flag(flags, 5), flag(flags, 4)
    end
    local before = level.lists.current
    read_list(r, level.lists, false)
    -- An empty list without generation in IR-DYN is how librohc says that nothing changed.
    if #level.lists.current == 0 and not is_ir and not level.lists.is_named then level.lists.current = before end
end

function v1.read_dynamic(c, r, is_ir, p)
    for _, level in ipairs(c.levels) do v1.read_ip_dynamic(level, r, is_ir) end
    local profile = c.profile
    if LITE[profile] then
        c.coverage = r:u16()
        p.checksum = r:u16()
    elseif profile <= 2 then
        p.checksum = r:u16()
        c.has_checksum = p.checksum ~= 0
    end
    if profile == 3 then
        c.sn = r:u32()
    elseif not RTP[profile] then
        c.sn = r:u16()
    else
        local first, second = r:u8(), r:u8()
        c.sn = r:u16()
        c.v, c.p, c.pt, p.marker = bits(first, 6, 2), flag(first, 5), second % 128, flag(second, 7)
        c.ts = r:u32()
        read_list(r, c.csrcs, true)
        local had_extension = c.x
        c.x = false
        if flag(first, 4) then
            local flags = r:u8()
            c.x = flag(flags, 4)
            p.mode = bits(flags, 2, 2)
            if flag(flags, 0) then c.stride = sdvl(r) end
            if flag(flags, 1) then c.time_stride = sdvl(r) end
        else
            c.x_before = had_extension
        end
    end
end

-- Makes the header of the packet, for `payload` octets behind it, and where each IP header and its extensions lie.
function v1.render(c, p, payload)
    local out, places = {}, {}
    local csrcs = RTP[c.profile] and c.csrcs.current or {}
    local transport = c.profile == 4 and 0 or RTP[c.profile] and 20 + 4 * #csrcs or 8
    for _, level in ipairs(c.levels) do
        local place = { at = #out + 1, v = level.v, extensions = {} }
        local header = clone(level.fixed)
        local items = level.lists.current
        if level.v == 4 then
            header[2], header[9] = level.tos, level.ttl
            put(header, 5, level.id, 2)
            header[7] = level.df and 0x40 or 0
        else
            header[1] = 0x60 + floor(level.tos / 16)
            header[2] = level.tos % 16 * 16 + header[2] % 16
            header[8] = level.ttl
        end
        header[level.v == 4 and 10 or 7] = items[1] and items[1][1] or level.next
        append(out, header)
        for index, item in ipairs(items) do
            local octets_of = clone(item)
            octets_of[1] = items[index + 1] and items[index + 1][1] or level.next
            place.extensions[#place.extensions + 1] = octets_of
            append(out, octets_of)
        end
        places[#places + 1] = place
    end
    local transport_at = #out + 1
    local total = #out + transport + payload
    for _, place in ipairs(places) do infer_ip(out, place.at, total - place.at + 1) end
    if c.profile == 4 then return out, places, transport_at end
    append(out, c.transport)
    if c.profile == 3 then
        put(out, #out + 1, c.sn, 4)
        return out, places, transport_at
    end
    local is_inferred = not LITE[c.profile] or c.coverage_inferred
    put(out, #out + 1, is_inferred and transport + payload or c.coverage, 2)
    put(out, #out + 1, p.checksum or 0, 2)
    if RTP[c.profile] then
        append(out, { c.v * 64 + (c.p and 32 or 0) + (c.x and 16 or 0) + #csrcs, (p.marker and 128 or 0) + c.pt })
        put(out, #out + 1, c.sn, 2)
        put(out, #out + 1, c.ts, 4)
        append(out, c.ssrc)
        for _, item in ipairs(csrcs) do append(out, item) end
    end
    return out, places, transport_at
end

-- CRC-STATIC, then CRC-DYNAMIC (RFC 3095 5.9.2).
function v1.header_crc(c, width, header, places, transport_at)
    local parts = {}
    local function add(first, last) parts[#parts + 1] = slice(header, first, last) end
    for _, place in ipairs(places) do
        local at = place.at
        if place.v == 6 then
            add(at, at + 3) add(at + 6, at + 39)
        else
            add(at, at + 1) add(at + 6, at + 9) add(at + 12, at + 19)
        end
        for _, extension in ipairs(place.extensions) do parts[#parts + 1] = extension end
    end
    local at = transport_at
    if c.profile ~= 4 then add(at, at + 3) end
    if RTP[c.profile] then
        add(at + 8, at + 8) add(at + 16, #header)
    end
    for _, place in ipairs(places) do
        local ip = place.at
        if place.v == 6 then add(ip + 4, ip + 5) else add(ip + 2, ip + 5) add(ip + 10, ip + 11) end
    end
    if RTP[c.profile] then
        add(at + 4, at + 7) add(at + 9, at + 15)
    elseif c.profile ~= 4 then
        add(at + 4, at + 7)
    end
    return crc_of(width, table.unpack(parts))
end

-- Levels that extension 3 and the short formats speak of: outer (if there are two), inner.
local function pair(c)
    local inner = c.levels[2] or c.levels[1]
    return c.levels[2] and c.levels[1] or nil, inner
end

local function counts(level) return level and level.v == 4 and not level.rnd end

function v1.has_t(c)
    local outer, inner = pair(c)
    return counts(inner) or counts(outer) or false
end

local function join(field, value, count)
    field.value = field.value * 2 ^ count + value
    field.bits = field.bits + count
    if field.bits > 32 then field.value, field.bits = field.value % 2 ^ 32, 32 end
end

-- Reads a header of type 0, 1 or 2 (RFC 3095 5.7.1 to 5.7.5, 5.11.3, 5.11.4).
function v1.read_compact(c, first, r)
    local none = function() return { value = 0, bits = 0 } end
    local p = { sn = none(), ts = none(), id = none(), outer_id = none(), crc_bits = 3 }
    local rtp, reliable, top = RTP[c.profile], c.mode == 3, floor(first / 32)
    local outer, inner = pair(c)
    local inner_rnd, outer_rnd = inner.rnd, outer and outer.rnd
    local function has_t()
        return inner.v == 4 and not inner_rnd or outer and outer.v == 4 and not outer_rnd or false
    end
    -- An extension 3 may change RND, and so whether there is a T bit (RFC 4815 8.3).
    local function look_ahead()
        local flags, inner_flags, outer_flags = r.list[r.at], r.list[r.at + 1], r.list[r.at + 2]
        if not flags or floor(flags / 64) ~= 3 or not flag(flags, 1) or not inner_flags then return end
        inner_rnd = flag(inner_flags, 1)
        if flag(inner_flags, 0) and outer_flags then outer_rnd = flag(outer_flags, 1) end
    end
    local function extension(t)
        local flags = r:u8()
        if flags >= 0xc0 then return v1.read_extension3(c, p, flags, r) end
        join(p.sn, bits(flags, 3, 3), 3)
        local plus, count = { value = flags % 8, bits = 3 }, floor(flags / 64)
        if not rtp then
            if count == 2 then
                join(plus, r:u8(), 8)
                p.outer_id = plus
            else
                join(p.id, plus.value, 3)
            end
            if count >= 1 then join(p.id, r:u8(), 8) end
            return
        end
        if count == 2 then join(plus, r:u8(), 8) end
        join(t ~= false and p.ts or p.id, plus.value, plus.bits)
        if count >= 1 then join(t ~= true and p.ts or p.id, r:u8(), 8) end
    end
    local function set(name, value, count) p[name] = { value = value, bits = count } end
    if top <= 3 and not reliable then
        p.kind, p.crc = "UO-0", first % 8
        set("sn", bits(first, 3, 4), 4)
    elseif top <= 1 then
        p.kind, p.crc_bits = "R-0", 0
        set("sn", first % 64, 6)
    elseif top <= 3 then
        local second = r:u8()
        p.kind, p.crc, p.crc_bits = "R-0-CRC", second % 128, 7
        set("sn", first % 64 * 2 + floor(second / 128), 7)
    elseif top <= 5 and not reliable then
        local second = r:u8()
        local high = flag(second, 7)
        p.crc = second % 8
        set("sn", bits(second, 3, 4), 4)
        if not rtp then
            p.kind = "UO-1"
            set("sn", floor(second / 8), 5)
            set("id", first % 64, 6)
        elseif not has_t() then
            p.kind, p.marker = "UO-1", high
            set("ts", first % 64, 6)
        elseif flag(first, 5) then
            p.kind, p.marker = "UO-1-TS", high
            set("ts", first % 32, 5)
        else
            p.kind = "UO-1-ID"
            set("id", first % 32, 5)
            if high then extension(false) end
        end
    elseif top <= 5 then
        local second = r:u8()
        p.kind, p.crc_bits = "R-1", 0
        set("sn", first % 64, 6)
        if not rtp then
            set("id", second % 128, 7)
            if flag(second, 7) then extension(nil) end
            return p
        end
        p.marker = flag(second, 7)
        local extended, t = flag(second, 6), nil
        if extended then look_ahead() end
        if has_t() then t = flag(second, 5) end
        if t == nil then
            set("ts", second % 64, 6)
        else
            p.kind = t and "R-1-TS" or "R-1-ID"
            set(t and "ts" or "id", second % 32, 5)
        end
        if extended then extension(t) end
    elseif top == 6 then
        p.kind, p.crc_bits = "UOR-2", 7
        if not rtp then
            local last = r:u8()
            p.crc = last % 128
            set("sn", first % 32, 5)
            if flag(last, 7) then extension(nil) end
            return p
        end
        local second, last = r:u8(), r:u8()
        p.crc = last % 128
        set("sn", second % 64, 6)
        p.marker = flag(second, 6)
        local extended, t = flag(last, 7), nil
        if extended then look_ahead() end
        if has_t() then t = flag(second, 7) end
        if t == nil then
            set("ts", first % 32 * 2 + floor(second / 128), 6)
        else
            p.kind = t and "UOR-2-TS" or "UOR-2-ID"
            set(t and "ts" or "id", first % 32, 5)
        end
        if extended then extension(t) end
    else
        refuse("packet type")
    end
    return p
end

-- Extension 3 up to its timestamp; the rest needs the decoded sequence number.
function v1.read_extension3(c, p, flags, r)
    local e = { id = flag(flags, 2) }
    if flag(flags, 1) then e.inner = r:u8() end
    local has_outer
    if RTP[c.profile] then has_outer = e.inner and flag(e.inner, 0) else has_outer = flag(flags, 0) end
    if has_outer then e.outer = r:u8() end
    if flag(flags, 5) then join(p.sn, r:u8(), 8) end
    if RTP[c.profile] then
        if flag(flags, 4) then join(p.ts, sdvl(r)) end
        e.scaled, e.rtp = flag(flags, 3), flag(flags, 0)
    else
        e.scaled, p.mode = true, bits(flags, 3, 2)
    end
    p.extension3 = e
end

function v1.read_extension3_fields(c, before, p, r)
    local e = p.extension3
    local outer, inner = pair(c)
    local function fields(level, flags)
        if flag(flags, 7) then level.tos = r:u8() end
        if flag(flags, 6) then level.ttl = r:u8() end
        if level.v == 4 then level.df, level.nbo, level.rnd = flag(flags, 5), flag(flags, 2), flag(flags, 1) end
        if flag(flags, 4) then level.next = r:u8() end
        if flag(flags, 3) then
            local head = r:u8()
            if bits(head, 4, 3) ~= 0 then refuse("AH or GRE in extension 3: not decoded") end
            if flag(head, 7) then read_list(r, level.lists, false) end
        end
    end
    if e.outer and not outer then refuse("outer IP header in extension 3") end
    if e.inner then fields(inner, e.inner) end
    local inner_id = e.id and r:u16() or nil
    local outer_id
    if e.outer then
        fields(outer, e.outer)
        if flag(e.outer, 0) then outer_id = r:u16() end
    end
    if e.rtp then
        local flags = r:u8()
        p.mode, p.marker = floor(flags / 64), flag(flags, 4)
        c.p_before = c.p and not flag(flags, 5)
        c.x, c.p = flag(flags, 3), false
        if flag(flags, 5) then
            local octet = r:u8()
            c.p, c.pt = flag(octet, 7), octet % 128
        end
        if flag(flags, 2) then read_list(r, c.csrcs, true) end
        if flag(flags, 1) then
            local stride = sdvl(r)
            if not e.scaled then c.stride = stride end
        end
        if flag(flags, 0) then c.time_stride = sdvl(r) end
    end
    local function offset(level, value)
        if not level.sid then
            local id = (value + before.sn) % 65536
            level.id = level.nbo and id or swap(id)
        end
    end
    local target = counts(inner) and inner or counts(outer) and outer
    if inner_id and target then offset(target, inner_id) end
    if outer_id then offset(outer, outer_id) end
end

function v1.timestamp(before, c, p, now)
    local scaled = not p.extension3 or p.extension3.scaled
    local function ts_p(count) return count <= 2 and 0 or 2 ^ (count - 2) - 1 end
    if not scaled then
        if p.ts.bits == 0 then refuse("unscaled timestamp without bits") end
        return lsb(before.ts, p.ts.value, p.ts.bits, ts_p(p.ts.bits), 32)
    end
    local stride = before.stride
    if p.ts.bits == 0 or stride == 0 then
        return (before.ts + distance(before.sn, c.sn, 16) * stride) % 2 ^ 32
    end
    local reference, value = floor(before.ts / stride), nil
    if c.time_stride > 0 and before.time_stride > 0 then
        local ticks = floor(math.max(now - before.arrival, 0) * 1000 / before.time_stride)
        local timer_p = p.ts.bits <= 1 and 0 or 2 ^ (p.ts.bits - 1) - 1
        value = lsb((reference + ticks) % 2 ^ 32, p.ts.value, p.ts.bits, timer_p, 32)
    else
        value = lsb(reference, p.ts.value, p.ts.bits, ts_p(p.ts.bits), 32)
    end
    return (value * stride + before.ts % stride) % 2 ^ 32
end

function v1.tail(c, p, r)
    local outer, inner = pair(c)
    for _, level in ipairs({ outer or inner, outer and inner or nil }) do
        if level.v == 4 and level.rnd then level.id = r:u16() end
    end
    for index = 3, #c.levels do v1.read_ip_dynamic(c.levels[index], r, false) end
    if LITE[c.profile] then
        if c.coverage_present or p.coverage_extension then c.coverage, c.coverage_inferred = r:u16(), false end
        p.checksum = r:u16()
    elseif c.has_checksum then
        p.checksum = r:u16()
    end
end

-- Decodes a packet of type 0, 1 or 2. Returns the context that it leads to, and what was found.
function v1.compressed(before, first, r, now)
    local coverage_extension = LITE[before.profile] and ({ [0xf9] = "once", [0xfa] = "on", [0xfb] = "off" })[first]
    if coverage_extension then first = r:u8() end
    local p = v1.read_compact(before, first, r)
    p.coverage_extension = coverage_extension
    local c = clone(before)
    c.x_before, c.p_before = nil, nil
    local width, count = number_bits(c.profile), p.sn.bits
    local own = RTP[c.profile] or c.profile == 3
    local sn_p = own and (count <= 4 and 1 or 2 ^ (count - 5) - 1) or -1
    c.sn = lsb(before.sn, p.sn.value, count, sn_p, width)
    local function offset_of(level) return ((level.nbo and level.id or swap(level.id)) - before.sn) % 65536 end
    local outer, inner = pair(c)
    local offsets = { [inner] = offset_of(inner) }
    if outer then offsets[outer] = offset_of(outer) end
    if p.extension3 then
        v1.read_extension3_fields(c, before, p, r)
        offsets[inner] = offset_of(inner)
        if outer then offsets[outer] = offset_of(outer) end
    end
    local target = counts(inner) and inner or counts(outer) and outer
    for level, offset in pairs(offsets) do
        if counts(level) and not level.sid then
            local field = level == outer and p.outer_id.bits > 0 and p.outer_id or level == target and p.id or nil
            if field and field.bits > 0 and not (p.extension3 and p.extension3.id) then
                offset = lsb(offset, field.value, field.bits, 0, 16)
            end
            local id = (offset + c.sn) % 65536
            level.id = level.nbo and id or swap(id)
        end
    end
    if RTP[c.profile] then c.ts = v1.timestamp(before, c, p, now) end
    v1.tail(c, p, r)
    return c, p
end

-- What librohc keeps where RFC 4815 6.4 and 6.5 clear it: padding and extension bit.
local function kept_bits(before, c)
    local variants = { {} }
    if before.x_before or c.p_before then
        variants[2] = { x = before.x_before or c.x, p = c.p_before or c.p }
    end
    return variants
end

function v1.finish(before, c, p, r)
    local payload = r:left()
    for _, variant in ipairs(kept_bits(before, c)) do
        if variant.x ~= nil then c.x = variant.x end
        if variant.p ~= nil then c.p = variant.p end
        local header, places, transport_at = v1.render(c, p, payload)
        p.header = header
        p.good = p.crc_bits == 0 or v1.header_crc(c, p.crc_bits, header, places, transport_at) == p.crc
        if p.good then break end
    end
    local rest = #p.header - #v1.chain_of(c) + payload
    if p.coverage_extension == "on" then
        c.coverage_present = true
    elseif p.coverage_extension == "off" then
        c.coverage_present, c.coverage_inferred = false, c.coverage == rest
    elseif LITE[c.profile] then
        c.coverage_present, c.coverage_inferred = before.coverage_present, before.coverage_inferred
    end
end

-- The octets before the transport.
function v1.chain_of(c)
    local chain = {}
    for _, level in ipairs(c.levels) do
        append(chain, level.fixed)
        for _, item in ipairs(level.lists.current) do append(chain, item) end
    end
    return chain
end

-- Version 2 -----------------------------------------------------------------------------------------------------------

local v2 = {}

local SEQUENTIAL, SWAPPED, RANDOM, ZERO = 0, 1, 2, 3

local EXTENSIONS = { [0] = "options", [60] = "options", [43] = "routing", [51] = "ah", [47] = "gre", [55] = "mine" }

local function kind_after(next)
    if next == 4 or next == 41 then return "ip" end
    return EXTENSIONS[next]
end

-- Appends the static part of an IP header, whose first octet was read. Returns the next header.
local function static_ip(r, h, link, first)
    if first < 128 then
        link.kind = "ip4"
        local next = r:u8()
        append(append(h, { 0x45, 0, 0, 0, 0, 0, 0, 0, 0, next, 0, 0 }), r:take(8))
        return next
    end
    link.kind = "ip6"
    local label = flag(first, 4) and r:take(2) or { 0, 0 }
    local next = r:u8()
    append(append(h, { 0x60, first % 16, label[1], label[2], 0, 0, next, 0 }), r:take(32))
    return next
end

-- Appends the static part of options or of a routing header. Returns the next header.
local function static_extension(r, h, kind)
    local next, length = r:u8(), r:u8()
    append(h, { next, length })
    if kind == "routing" then
        append(h, r:take(8 * length + 6))
    else
        for _ = 1, 8 * length + 6 do h[#h + 1] = 0 end
    end
    return next
end

local function gre_len(flags)
    return 4 + 4 * (bits(flags, 7, 1) + bits(flags, 5, 1) + bits(flags, 4, 1))
end

-- `bare`: AH, GRE and minimal encapsulation are payload, as librohc has it.
function v2.read_static(s, r, bare)
    local h, next, innermost = s.header, 4, false
    while true do
        local kind = kind_after(next)
        if not kind then
            if not innermost then refuse("static chain without an innermost IP header") end
            break
        end
        if innermost and (kind == "ip" or kind == "gre") then break end
        if innermost and bare and (kind == "ah" or kind == "mine") then break end
        local link = { at = #h + 1, kind = kind, id = RANDOM }
        if kind == "ip" then
            local first = r:u8()
            innermost = flag(first, 6)
            if flag(first, 5) or first < 128 and first % 64 ~= 0 then refuse("reserved bits of a static chain") end
            next = static_ip(r, h, link, first)
            s.inner = link
        elseif kind == "options" or kind == "routing" then
            next = static_extension(r, h, kind)
        elseif kind == "ah" then
            next = r:u8()
            local length = r:u8()
            append(append(h, { next, length, 0, 0 }), r:take(4))
            for _ = 1, 4 * (length + 2) - 8 do h[#h + 1] = 0 end
        elseif kind == "gre" then
            local first = r:u8()
            local flags = bits(first, 6, 1) * 128 + bits(first, 4, 2) * 16
            local made = { flags, 0 }
            put(made, 3, first >= 128 and 0x86dd or 0x0800, 2)
            for at = 5, gre_len(flags) do made[at] = 0 end
            if flag(flags, 5) then
                local key = r:u32()
                put(made, flag(flags, 7) and 9 or 5, key, 4)
            end
            append(h, made)
            next = 4
        else
            refuse("minimal encapsulation: not decoded")
        end
        link.len = #h - link.at + 1
        s.links[#s.links + 1] = link
    end
    s.chain_len = #h
    local profile = s.profile % 256
    if profile ~= 4 then append(append(h, r:take(4)), { 0, 0, 0, 0 }) end
    if RTP[profile] then append(append(h, { 0x80, 0, 0, 0, 0, 0, 0, 0 }), r:take(4)) end
end

local function set_tos(s, link, tos)
    local h, at = s.header, link.at
    if link.kind == "ip4" then
        h[at + 1] = tos
    else
        h[at], h[at + 1] = 0x60 + floor(tos / 16), tos % 16 * 16 + h[at + 1] % 16
    end
end

local function tos_of(h, link)
    return link.kind == "ip4" and h[link.at + 1] or h[link.at] % 16 * 16 + floor(h[link.at + 1] / 16)
end

local function set_ttl(s, link, ttl) s.header[link.at + (link.kind == "ip4" and 8 or 7)] = ttl end

local function fill(s, at, list) for index = 1, #list do s.header[at + index - 1] = list[index] end end

local function sequence_at(s, link)
    if link.kind == "ah" then return link.at + 8 end
    if link.kind == "gre" and flag(s.header[link.at], 4) then return link.at + link.len - 4 end
end

local function has_gre_checksum(s, link) return link.kind == "gre" and flag(s.header[link.at], 7) end

function v2.read_csrcs(s, r)
    local first = r:u8()
    local count, entries = first % 16, nil
    if flag(first, 4) then
        entries = {}
        for _ = 1, count do
            local octet = r:u8()
            entries[#entries + 1] = { index = octet % 16, sent = flag(octet, 7) }
        end
    else
        entries = read_entries(r, false, nil, count)
    end
    local at = s.chain_len + 9
    for index = #s.header, at + 12, -1 do s.header[index] = nil end
    s.header[at] = floor(s.header[at] / 16) * 16 + count
    for _, entry in ipairs(entries) do
        if entry.sent then s.csrcs[entry.index] = r:take(4) end
        append(s.header, s.csrcs[entry.index] or refuse("item of a list that is not there"))
    end
end

function v2.read_dynamic(s, r)
    local h, profile = s.header, s.profile % 256
    for _, link in ipairs(s.links) do
        local at = link.at
        local is_end = profile == 4 and link.at == s.inner.at
        if link.kind == "ip4" then
            local first = r:u8()
            if first >= (is_end and 0x20 or 8) then refuse("reserved bits of a dynamic chain") end
            link.id, h[at + 6] = first % 4, flag(first, 2) and 0x40 or 0
            if is_end then s.reorder = bits(first, 3, 2) end
            h[at + 1], h[at + 8] = r:u8(), r:u8()
            put(h, at + 4, link.id == ZERO and 0 or r:u16(), 2)
        elseif link.kind == "ip6" then
            set_tos(s, link, r:u8())
            set_ttl(s, link, r:u8())
            if is_end then s.reorder = r:u8() % 4 end
        elseif link.kind == "options" then
            fill(s, at + 2, r:take(link.len - 2))
        elseif link.kind == "ah" then
            fill(s, at + 8, r:take(link.len - 8))
        else
            if has_gre_checksum(s, link) then fill(s, at + 4, r:take(2)) end
            local sequence = sequence_at(s, link)
            if sequence then fill(s, sequence, r:take(4)) end
        end
        if is_end then s.sn = r:u16() end
    end
    local at = s.chain_len + 1
    local function rtp()
        local flags = r:u8()
        s.reorder = bits(flags, 5, 2)
        for index = #h, at + 20, -1 do h[index] = nil end
        h[at + 8] = 0x80 + flags % 4 * 16
        fill(s, at + 9, r:take(7))
        s.sn = u16(h, at + 10)
        s.stride = flag(flags, 3) and sdvl(r, 32) or 160
        s.time_stride = flag(flags, 2) and sdvl(r, 32) or 0
        if flag(flags, 4) then v2.read_csrcs(s, r) end
    end
    local function coverage(behaviour)
        s.coverage = behaviour
        if behaviour ~= 0 then fill(s, at + 4, r:take(2)) end
    end
    if profile == 2 then
        fill(s, at + 6, r:take(2))
        s.sn, s.reorder = r:u16(), r:u8() % 4
    elseif profile == 8 then
        local first = r:u8()
        s.reorder = first % 4
        coverage(bits(first, 2, 2))
        fill(s, at + 6, r:take(2))
        s.sn = r:u16()
    elseif profile == 3 then
        s.sn = r:u32()
        put(h, at + 4, s.sn, 4)
        s.reorder = r:u8() % 4
    elseif profile == 1 then
        fill(s, at + 6, r:take(2))
        rtp()
    elseif profile == 7 then
        coverage(bits(r:u8(), 6, 2))
        fill(s, at + 6, r:take(2))
        rtp()
    end
end

function v2.infer(s, payload)
    local h, profile = s.header, s.profile % 256
    if profile <= 2 or LITE[profile] and s.coverage == 0 then
        put(h, s.chain_len + 5, #h - s.chain_len + payload, 2)
    end
    for _, link in ipairs(s.links) do
        if link.kind == "ip4" or link.kind == "ip6" then infer_ip(h, link.at, #h - link.at + 1 + payload) end
    end
end

-- CRC-3 over the control fields (RFC 5225 6.6.11; IPv6 headers have no behaviour there, erratum 2703).
function v2.control_crc(s)
    local list, profile = { s.reorder }, s.profile % 256
    if RTP[profile] then
        put(list, 2, s.stride, 4)
        put(list, 6, s.time_stride, 4)
    elseif profile ~= 3 then
        put(list, 2, s.sn % 65536, 2)
    end
    if LITE[profile] then list[#list + 1] = s.coverage end
    for _, link in ipairs(s.links) do
        if link.kind == "ip4" then list[#list + 1] = link.id end
    end
    return crc_of(3, list)
end

-- Short formats (RFC 5225 6.8.2.4): discriminator, its bits, name, fields.
local FORMATS = {
    rtp_rnd = {
        { 0, 1, "pt_0_crc3", "msn:4 crc:3" }, { 0x8, 4, "pt_0_crc7", "msn:5 crc:7" },
        { 0x5, 3, "pt_1_rnd", "m:1 msn:4 ts:5 crc:3" }, { 0x6, 3, "pt_2_rnd", "msn:7 ts:6 m:1 crc:7" },
    },
    rtp_seq = {
        { 0, 1, "pt_0_crc3", "msn:4 crc:3" }, { 0x8, 4, "pt_0_crc7", "msn:5 crc:7" },
        { 0x9, 4, "pt_1_seq_id", "id:4 msn:5 crc:3" }, { 0x5, 3, "pt_1_seq_ts", "m:1 msn:4 ts:5 crc:3" },
        { 0x18, 5, "pt_2_seq_id", "msn:7 id:5 crc:7" }, { 0xd, 4, "pt_2_seq_ts", "msn:7 ts:5 m:1 crc:7" },
        { 0x19, 5, "pt_2_seq_both", "msn:7 id:5 crc:7 ts:7 m:1" },
    },
    rnd = { { 0, 1, "pt_0_crc3", "msn:4 crc:3" }, { 0x4, 3, "pt_0_crc7", "msn:6 crc:7" } },
    seq = {
        { 0, 1, "pt_0_crc3", "msn:4 crc:3" }, { 0x4, 3, "pt_0_crc7", "msn:6 crc:7" },
        { 0x5, 3, "pt_1_seq_id", "crc:3 msn:6 id:4" }, { 0x6, 3, "pt_2_seq_id", "id:6 crc:7 msn:8" },
    },
}

function v2.read_short(s, first, r)
    local sequential = s.inner.kind == "ip4" and s.inner.id <= SWAPPED
    local set = FORMATS[(RTP[s.profile % 256] and "rtp_" or "") .. (sequential and "seq" or "rnd")]
    for _, format in ipairs(set) do
        if bits(first, 8 - format[2], format[2]) == format[1] then
            local p = { kind = format[3], msn = 0, msn_bits = 0 }
            local value, left = first % 2 ^ (8 - format[2]), 8 - format[2]
            for name, count in format[4]:gmatch("(%a+):(%d+)") do
                count = tonumber(count)
                while left < count do
                    value, left = value * 256 + r:u8(), left + 8
                end
                left = left - count
                p[name], p[name .. "_bits"] = floor(value / 2 ^ left), count
                value = value % 2 ^ left
            end
            if p.ts then p.ts_form = "scaled" end
            p.marker = p.m == 1
            return p
        end
    end
    refuse("type octet that no format has")
end

-- Reads co_common up to its list of CSRCs.
function v2.read_common(s, r)
    local profile = s.profile % 256
    local p = { kind = "co_common", crc_bits = 7, updates = {} }
    local u = p.updates
    local function ip_flags(flags)
        u.df, u.id = flag(flags, 2), flags % 4
    end
    local first, head = r:u8(), r:u8()
    p.crc, p.control = first % 128, head % 8
    local whole_id, has_tos, has_ttl, has_type, has_time_stride
    if RTP[profile] then
        p.marker, whole_id = flag(first, 7), flag(head, 3)
        if flag(head, 7) then
            local flags = r:u8()
            u.outer, has_ttl, has_tos = flag(flags, 7), flag(flags, 6), flag(flags, 5)
            ip_flags(bits(flags, 2, 3))
            u.reorder = flags % 4
        end
        if flag(head, 6) then
            local flags = r:u8()
            if LITE[profile] then u.coverage, flags = flags % 4, floor(flags / 4) else flags = floor(flags / 8) end
            u.list, has_type, has_time_stride, u.rtp_bits = flag(flags, 4), flag(flags, 3), flag(flags, 2), flags % 4
        end
    else
        whole_id, has_ttl, has_tos, u.reorder = flag(first, 7), flag(head, 6), flag(head, 5), bits(head, 3, 2)
        if flag(head, 7) then
            local flags = r:u8()
            if LITE[profile] then u.coverage, flags = flags % 4, floor(flags / 4) else flags = floor(flags / 16) end
            u.outer = flag(flags, 3)
            ip_flags(flags % 8)
        end
    end
    if has_tos then u.tos = r:u8() end
    if has_ttl then u.ttl = r:u8() end
    if has_type then u.pt = r:u8() % 128 end
    if RTP[profile] then
        p.msn, p.msn_bits = sdvl(r, 16)
    elseif profile == 3 then
        p.msn, p.msn_bits = sdvl(r, 32)
    else
        p.msn, p.msn_bits = r:u8(), 8
    end
    local behaviour = s.inner.kind == "ip4" and (u.id or s.inner.id) or RANDOM
    if behaviour <= SWAPPED then
        if whole_id then p.whole_id = r:u16() else p.id, p.id_bits = r:u8(), 8 end
    end
    if RTP[profile] then
        p.ts_form = flag(head, 5) and "scaled" or "unscaled"
        p.ts, p.ts_bits = sdvl(r, 32)
        if flag(head, 4) then u.stride = sdvl(r, 32) end
        if has_time_stride then u.time_stride = sdvl(r, 32) end
    end
    return p
end

-- How far a number of `count` bits may lie behind the newest, by reorder ratio (RFC 5225 6.3.2).
local DEPTH = {
    [0] = function() return 1 end,
    function(count) return 2 ^ count / 4 - 1 end,
    function(count) return 2 ^ count / 2 - 1 end,
    function(count) return 2 ^ count * 3 / 4 - 1 end,
}

local function value_p(count) return 2 ^ count / 4 - 1 end

local function u32(list, at) return u16(list, at) * 65536 + u16(list, at + 2) end

-- What later packets are relative to.
function v2.point(s, now)
    local offset, ts = 0, 0
    if s.inner.kind == "ip4" then
        local id = u16(s.header, s.inner.at + 4)
        offset = ((s.inner.id == SWAPPED and swap(id) or id) - s.sn) % 65536
    end
    if RTP[s.profile % 256] then ts = u32(s.header, s.chain_len + 13) end
    return { sn = s.sn, offset = offset, ts = ts, at = now }
end

function v2.timestamp(s, p, point, now)
    local stride = s.stride
    if p.ts_form == nil then return (point.ts + distance(point.sn, s.sn, 16) * stride) % 2 ^ 32 end
    if p.ts_form == "unscaled" then
        return lsb(point.ts, p.ts, p.ts_bits, p.ts_bits < 32 and value_p(p.ts_bits) or 0, 32)
    end
    if stride == 0 then refuse("scaled timestamp without a stride") end
    local reference, value = floor(point.ts / stride), p.ts
    if p.ts_bits < 32 and s.time_stride > 0 then
        local ticks = floor(floor(math.max(now - point.at, 0) * 1000) / s.time_stride)
        value = lsb(reference + ticks, p.ts, p.ts_bits, 2 ^ p.ts_bits / 2 - 1, 32)
    elseif p.ts_bits < 32 then
        value = lsb(reference, p.ts, p.ts_bits, value_p(p.ts_bits), 32)
    end
    return (value * stride + point.ts % stride) % 2 ^ 32
end

function v2.repair(before, r)
    local p = { kind = "co_repair", crc_bits = 7 }
    p.crc, p.control = r:u8() % 128, r:u8() % 8
    local s = clone(before)
    for _, link in ipairs(s.links) do if link.at == s.inner.at then s.inner = link end end
    v2.read_dynamic(s, r)
    return s, p
end

function v2.compressed(before, first, r, now)
    if first == 0xfb then return v2.repair(before, r) end
    local p = first == 0xfa and v2.read_common(before, r) or v2.read_short(before, first, r)
    local u, width, profile = p.updates or {}, number_bits(before.profile), before.profile % 256
    local s = clone(before)
    for _, link in ipairs(s.links) do if link.at == s.inner.at then s.inner = link end end
    s.reorder = u.reorder or s.reorder
    s.sn = lsb(before.sn, p.msn, p.msn_bits, DEPTH[s.reorder](p.msn_bits), width)
    local point = before.points[#before.points]
    p.is_late = distance(before.sn, s.sn, width) <= 0
    if p.is_late then
        for _, candidate in ipairs(before.points) do
            local ahead, best = distance(candidate.sn, s.sn, width), distance(point.sn, s.sn, width)
            if ahead >= 0 and ahead <= 128 and (best < 0 or ahead <= best) then point = candidate end
        end
    end
    local h, at = s.header, s.chain_len + 1
    if RTP[profile] then h[at + 9] = h[at + 9] % 128 + (p.marker and 128 or 0) end
    if u.tos then set_tos(s, s.inner, u.tos) end
    if u.ttl then set_ttl(s, s.inner, u.ttl) end
    if u.id and s.inner.kind == "ip4" then s.inner.id, h[s.inner.at + 6] = u.id, u.df and 0x40 or 0 end
    s.coverage, s.stride, s.time_stride =
        u.coverage or s.coverage, u.stride or s.stride, u.time_stride or s.time_stride
    if RTP[profile] then
        put(h, at + 10, s.sn, 2)
        put(h, at + 12, v2.timestamp(s, p, point, now), 4)
    elseif profile == 3 then
        put(h, at + 4, s.sn, 4)
    end
    if s.inner.kind == "ip4" and s.inner.id <= SWAPPED then
        local offset = p.id and lsb(point.offset, p.id, p.id_bits, value_p(p.id_bits), 16) or point.offset
        local id = (offset + s.sn) % 65536
        if s.inner.id == SWAPPED then id = swap(id) end
        put(h, s.inner.at + 4, p.whole_id or id, 2)
    end
    if u.pt then h[at + 9] = floor(h[at + 9] / 128) * 128 + u.pt end
    if u.rtp_bits then h[at + 8] = 0x80 + u.rtp_bits * 16 + h[at + 8] % 16 end
    if u.list then v2.read_csrcs(s, r) end
    v2.read_irregular(s, r, u.outer)
    return s, p
end

function v2.read_irregular(s, r, outer)
    local h, profile = s.header, s.profile % 256
    for _, link in ipairs(s.links) do
        if link.kind == "ip4" or link.kind == "ip6" then
            if link.kind == "ip4" and link.id == RANDOM then fill(s, link.at + 4, r:take(2)) end
            if link.kind == "ip4" and link.id == ZERO then put(h, link.at + 4, 0, 2) end
            if outer and link.at ~= s.inner.at then
                set_tos(s, link, r:u8())
                set_ttl(s, link, r:u8())
            end
        else
            if has_gre_checksum(s, link) then fill(s, link.at + 4, r:take(2)) end
            local sequence = sequence_at(s, link)
            if sequence then
                local count = r:peek() < 128 and 7 or 31
                local value = count == 7 and r:u8() or r:u32() % 2 ^ 31
                put(h, sequence, lsb(u32(h, sequence), value, count, value_p(count), 32), 4)
            end
            if link.kind == "ah" then fill(s, link.at + 12, r:take(link.len - 12)) end
        end
    end
    local at = s.chain_len + 1
    if profile <= 2 then
        if u16(h, at + 6) ~= 0 then fill(s, at + 6, r:take(2)) end
    elseif LITE[profile] then
        if s.coverage == 2 then fill(s, at + 4, r:take(2)) end
        fill(s, at + 6, r:take(2))
    end
end

function v2.finish(s, p, r)
    v2.infer(s, r:left())
    p.header = s.header
    p.good = crc_of(p.crc_bits, s.header) == p.crc
    if p.control then
        p.control_good = v2.control_crc(s) == p.control
    end
end

function v2.adopt(s, now, is_new)
    if is_new then s.points = {} end
    s.points[#s.points + 1] = v2.point(s, now)
    if #s.points > 32 then table.remove(s.points, 1) end
end

-- TCP (RFC 6846) ------------------------------------------------------------------------------------------------------

local tcp = {}

-- Static chain up to TCP's ports. Headers are kept as those of version 2 are.
function tcp.read_static(s, r)
    local h, next = s.header, 4
    while next ~= 6 do
        local kind = kind_after(next)
        local link = { at = #h + 1, kind = kind, id = RANDOM }
        if kind == "ip" then
            next = static_ip(r, h, link, r:u8())
            s.inner = link
        elseif kind == "options" or kind == "routing" then
            next = static_extension(r, h, kind)
        else
            refuse("AH, GRE or minimal encapsulation before TCP: not decoded")
        end
        link.len = #h - link.at + 1
        s.links[#s.links + 1] = link
    end
    s.chain_len = #h
    append(h, r:take(4))
    for _ = 1, 16 do h[#h + 1] = 0 end
end

-- Options without content need no item.
local CONSTANT = { [0] = { 1 }, [5] = { 4, 2 } }
local OPTIONS = { [2] = { 2, 4 }, [3] = { 3, 3 }, [4] = { 8, 10 }, [5] = { 4, 2 } }

local function read_sack(r, ack, count)
    if count < 1 or count > 4 then refuse("SACK option") end
    local made, edge = { 5, 2 + 8 * count }, ack
    for _ = 1, 2 * count do
        local first, value = r:peek(), nil
        if first < 0x80 then
            value = r:u16()
        elseif first < 0xc0 then
            value = r:uint(3) % 2 ^ 22
        elseif first < 0xe0 then
            value = r:u32() % 2 ^ 29
        else
            r:u8()
            value = r:u32()
        end
        edge = (edge + value) % 2 ^ 32
        put(made, #made + 1, edge, 4)
    end
    return made
end

-- A list item: an option with all of its content (RFC 6846 6.3.4).
local function read_option(r, index, ack)
    if index == 0 then return { 1 } end
    if index == 1 then
        local made = { 0 }
        for _ = 1, r:u8() / 8 do made[#made + 1] = 0 end
        return made
    end
    if index == 6 then return read_sack(r, ack, r:u8()) end
    local known = OPTIONS[index]
    if known then return append(clone(known), r:take(known[2] - 2)) end
    local kind, length = r:u8(), r:u8()
    local made = append({ kind, length % 128 }, r:take(length % 128 - 2))
    made.is_static = length >= 128
    return made
end

-- What an option changed since the table's entry.
local function read_irregular_option(r, index, ack, known)
    if not known then refuse("option that no item has established") end
    if index == 4 then
        local made = { 8, 10 }
        for _, at in ipairs({ 3, 7 }) do
            local reference, first = u32(known, at), r:peek()
            local value
            if first < 0x80 then
                value = lsb(reference, r:u8(), 7, -1, 32)
            elseif first < 0xc0 then
                value = lsb(reference, r:u16() % 2 ^ 14, 14, -1, 32)
            elseif first < 0xe0 then
                value = lsb(reference, r:uint(3) % 2 ^ 21, 21, 0x40000, 32)
            else
                value = lsb(reference, r:u32() % 2 ^ 29, 29, 0x4000000, 32)
            end
            put(made, at, value, 4)
        end
        return made
    end
    if index == 6 then
        local count = r:u8()
        return count == 0 and known or read_sack(r, ack, count)
    end
    if index >= 7 and not known.is_static and r:u8() == 0 then
        return append({ known[1], known[2] }, r:take(known[2] - 2))
    end
    return known
end

local function read_options_head(r, s)
    local head = r:u8()
    s.list, s.came = {}, {}
    local entries = read_entries(r, flag(head, 4), nil, head % 16)
    for position, entry in ipairs(entries) do s.list[position] = entry.index end
    return entries
end

local function read_list_items(r, s, entries, ack)
    for position, entry in ipairs(entries) do
        if entry.sent then s.came[position] = read_option(r, entry.index, ack) end
    end
end

-- Appends the options, from list items, the irregular chain (`r`), or the table; and notes them in the table.
local function write_options(s, r, ack)
    local h, start = s.header, #s.header
    for position, index in ipairs(s.list) do
        local option, known = s.came[position], s.items[index] or CONSTANT[index]
        if not option and r then option = read_irregular_option(r, index, ack, known) end
        option = option or known or refuse("option that no item has established")
        append(h, option)
        s.items[index] = option
    end
    local length = #h - start
    if length > 40 or length % 4 ~= 0 then refuse("options of TCP") end
    h[s.chain_len + 13] = (20 + length) * 4 + h[s.chain_len + 13] % 16
    s.came = {}
end

local function drop_options(s)
    for index = #s.header, s.chain_len + 21, -1 do s.header[index] = nil end
end

function tcp.read_dynamic(s, r)
    local h = s.header
    drop_options(s)
    for _, link in ipairs(s.links) do
        local at = link.at
        if link.kind == "ip4" then
            local first = r:u8()
            link.id, h[at + 6] = first % 4, flag(first, 2) and 0x40 or 0
            h[at + 1], h[at + 8] = r:u8(), r:u8()
            put(h, at + 4, link.id == ZERO and 0 or r:u16(), 2)
        elseif link.kind == "ip6" then
            set_tos(s, link, r:u8())
            set_ttl(s, link, r:u8())
        elseif link.kind == "options" then
            fill(s, at + 2, r:take(link.len - 2))
        end
    end
    local at = s.chain_len + 1
    local first, flags = r:u8(), r:u8()
    h[at + 12], h[at + 13] = first % 16, flags
    s.ecn_used, s.sn = flag(first, 7), r:u16()
    fill(s, at + 4, r:take(4))
    put(h, at + 8, flag(first, 5) and 0 or r:u32(), 4)
    fill(s, at + 14, r:take(4))
    put(h, at + 18, flag(first, 4) and 0 or r:u16(), 2)
    if flag(first, 6) then s.ack_stride = r:u16() end
    local ack = u32(h, at + 8)
    read_list_items(r, s, read_options_head(r, s), ack)
    s.ack = ack
end

-- Context replication (RFC 6846 7.2): the replicate chain over the base's headers.
function tcp.read_replicate(s, r)
    local h = s.header
    drop_options(s)
    for _, link in ipairs(s.links) do
        local at = link.at
        if link.kind == "ip4" then
            local first = r:u8()
            link.id, h[at + 6] = bits(first, 2, 2), flag(first, 0) and 0x40 or 0
            h[at + 1] = r:u8()
            put(h, at + 4, link.id == ZERO and 0 or r:u16(), 2)
            if flag(first, 1) then h[at + 8] = r:u8() end
        elseif link.kind == "ip6" then
            set_tos(s, link, r:u8())
            local first = r:u8()
            local label = flag(first, 4) and r:take(2) or { 0, 0 }
            h[at + 1], h[at + 2], h[at + 3] = floor(h[at + 1] / 16) * 16 + first % 16, label[1], label[2]
        elseif r:u8() >= 128 then
            refuse("extension header that changes in IR-CR: not decoded")
        end
    end
    local at = s.chain_len + 1
    local first, second = r:u8(), r:u8()
    s.ecn_used, s.sn = flag(second, 0), r:u16()
    local rsf = ({ [0] = 0, 4, 2, 1 })[bits(second, 1, 2)]
    h[at + 13] = floor(h[at + 13] / 64) * 64 + bits(second, 3, 3) * 8 + rsf
    fill(s, at + 4, r:take(4))
    local function port(place, form)
        if form == 1 then
            put(h, place, lsb(u16(h, place), r:u8(), 8, 64, 16), 2)
        elseif form == 2 then
            fill(s, place, r:take(2))
        end
    end
    port(at, bits(first, 3, 2))
    port(at + 2, bits(first, 1, 2))
    if flag(first, 6) then fill(s, at + 14, r:take(2)) end
    if flag(second, 6) then fill(s, at + 18, r:take(2)) end
    if flag(second, 7) then fill(s, at + 8, r:take(4)) end
    if s.ecn_used then
        local octet = r:u8()
        h[at + 12] = floor(h[at + 12] / 16) * 16 + bits(octet, 2, 4)
        h[at + 13] = h[at + 13] % 64 + octet % 4 * 64
    end
    fill(s, at + 16, r:take(2))
    if flag(first, 0) then s.ack_stride = r:u16() end
    s.ack, s.came = u32(h, at + 8), {}
    if flag(first, 5) then read_list_items(r, s, read_options_head(r, s), s.ack) end
end

-- Fills in options and lengths behind an IR, IR-DYN or IR-CR.
function tcp.complete(s, r)
    write_options(s, nil, s.ack)
    s.payload_len = r:left()
    v2.infer(s, s.payload_len)
end

-- Formats (RFC 6846 8.2): discriminator, its bits, name, fields as name:bits:p.
local TCP_RND = {
    { 0xc, 4, "rnd_2", "seqs:4:7 msn:4:4 psh:1 crc:3" }, { 0xd, 4, "rnd_4", "acks:4:3 msn:4:4 psh:1 crc:3" },
    { 0, 1, "rnd_3", "ack:15:8191 msn:4:4 psh:1 crc:3" }, { 0x2e, 6, "rnd_1", "seq:18:65535 msn:4:4 psh:1 crc:3" },
    { 0xa, 4, "rnd_6", "crc:3 psh:1 ack:16:16383 msn:4:4 seqs:4:7" },
    { 0x4, 3, "rnd_5", "psh:1 msn:4:4 crc:3 seq:14:8191 ack:15:8191" },
    { 0x2f, 6, "rnd_7", "ack:18:65535 win:16 msn:4:4 psh:1 crc:3" },
    { 0x16, 5, "rnd_8", "rsf:2 list:1 crc:7 msn:4:4 psh:1 ttl:3:3 ecn:1 seq:16:65535 ack:16:16383" },
}
local TCP_SEQ = {
    { 0, 1, "seq_4", "acks:4:3 id:3:1 msn:4:4 psh:1 crc:3" },
    { 0x1a, 5, "seq_2", "id:7:3 seqs:4:7 msn:4:4 psh:1 crc:3" },
    { 0xa, 4, "seq_1", "id:4:3 seq:16:32767 msn:4:4 psh:1 crc:3" },
    { 0x9, 4, "seq_3", "id:4:3 ack:16:16383 msn:4:4 psh:1 crc:3" },
    { 0x1b, 5, "seq_6", "seqs:4:7 id:7:3 ack:16:16383 msn:4:4 psh:1 crc:3" },
    { 0x8, 4, "seq_5", "id:4:3 ack:16:16383 seq:16:32767 msn:4:4 psh:1 crc:3" },
    { 0xc, 4, "seq_7", "win:15:16383 id:5:3 ack:16:32767 msn:4:4 psh:1 crc:3" },
    { 0xb, 4, "seq_8", "id:4:3 list:1 crc:7 msn:4:4 psh:1 ttl:3:3 ecn:1 ack:15:8191 rsf:2 seq:14:8191" },
}

local RSF = { [0] = 0, 4, 2, 1 }

local function scale(value, stride)
    if stride == 0 then return 0, value end
    return floor(value / stride), value % stride
end

local function read_short_tcp(before, first, r)
    local sequential = before.inner.kind == "ip4" and before.inner.id <= SWAPPED
    for _, format in ipairs(sequential and TCP_SEQ or TCP_RND) do
        if bits(first, 8 - format[2], format[2]) == format[1] then
            local p = { kind = format[3], crc_bits = 3, fields = {} }
            local value, left = first % 2 ^ (8 - format[2]), 8 - format[2]
            for name, count, offset in format[4]:gmatch("(%a+):(%d+):?(%d*)") do
                count = tonumber(count)
                while left < count do
                    value, left = value * 256 + r:u8(), left + 8
                end
                left = left - count
                p.fields[name] = { value = floor(value / 2 ^ left), bits = count, p = tonumber(offset) or 0 }
                value = value % 2 ^ left
            end
            p.crc, p.crc_bits = p.fields.crc.value, p.fields.crc.bits
            return p
        end
    end
    refuse("type octet that no format has")
end

function tcp.compressed(before, first, r)
    local h = before.header
    local at = before.chain_len + 1
    local function decode(field, reference, width) return lsb(reference, field.value, field.bits, field.p, width) end
    local s = clone(before)
    for _, link in ipairs(s.links) do if link.at == s.inner.at then s.inner = link end end
    drop_options(s)
    s.came = {}
    local seq, ack, ttl_at = u32(h, at + 4), u32(h, at + 8), s.inner.at + (s.inner.kind == "ip4" and 8 or 7)
    local new_seq, new_ack, flags, has_list, outer_ttl, p = seq, ack, 0x10, false, false, nil
    local offset = 0
    if s.inner.kind == "ip4" then
        local id = u16(h, s.inner.at + 4)
        offset = ((s.inner.id == SWAPPED and swap(id) or id) - s.sn) % 65536
    end
    local scaled
    if first == 0xfa or first == 0xfb then
        local second, third, fourth, fifth = r:u8(), r:u8(), r:u8(), r:u8()
        p = { kind = "co_common", crc = fifth % 128, crc_bits = 7 }
        outer_ttl = first == 0xfb
        flags = (flag(second, 7) and 0x10 or 0) + (flag(second, 6) and 8 or 0) + (flag(fourth, 0) and 0x20 or 0)
            + RSF[bits(second, 4, 2)]
        s.sn = lsb(s.sn, second % 16, 4, 4, 16)
        s.ecn_used, has_list, s.inner.id = flag(fourth, 6), flag(fourth, 3), bits(fourth, 1, 2)
        local function variable(form, reference)
            if form == 0 then return reference end
            if form == 1 then return lsb(reference, r:u8(), 8, 63, 32) end
            if form == 2 then return lsb(reference, r:u16(), 16, 16383, 32) end
            return r:u32()
        end
        new_seq = variable(bits(third, 6, 2), seq)
        new_ack = variable(bits(third, 4, 2), ack)
        if flag(third, 3) then s.ack_stride = r:u16() end
        if flag(third, 2) then fill(s, at + 14, r:take(2)) end
        if s.inner.kind == "ip4" and s.inner.id <= SWAPPED then
            if flag(third, 1) then
                local id = r:u16()
                offset = ((s.inner.id == SWAPPED and swap(id) or id) - s.sn) % 65536
            else
                offset = lsb(offset, r:u8(), 8, 3, 16)
            end
        end
        if flag(third, 0) then fill(s, at + 18, r:take(2)) end
        if s.inner.kind == "ip4" then s.header[s.inner.at + 6] = flag(fifth, 7) and 0x40 or 0 end
        if flag(fourth, 5) then
            local dscp = floor(r:u8() / 4)
            local tos = tos_of(h, s.inner)
            set_tos(s, s.inner, dscp * 4 + tos % 4)
        end
        if flag(fourth, 4) then s.header[ttl_at] = r:u8() end
    else
        p = read_short_tcp(before, first, r)
        local field = p.fields
        s.sn = decode(field.msn, s.sn, 16)
        if field.seq then new_seq = decode(field.seq, seq, 32) end
        if field.ack then new_ack = decode(field.ack, ack, 32) end
        if field.acks then
            if s.ack_stride == 0 then refuse("scaled acknowledgement without stride") end
            local high, low = scale(ack, s.ack_stride)
            new_ack = (decode(field.acks, high, 32) * s.ack_stride + low) % 2 ^ 32
        end
        scaled = field.seqs
        if field.id then offset = decode(field.id, offset, 16) end
        if field.win then put(s.header, at + 14, decode(field.win, u16(h, at + 14), 16), 2) end
        if field.ttl then s.header[ttl_at] = decode(field.ttl, h[ttl_at], 8) end
        if field.ecn then s.ecn_used = field.ecn.value == 1 end
        flags = flags + field.psh.value * 8 + (field.rsf and RSF[field.rsf.value] or 0)
        has_list = field.list ~= nil and field.list.value == 1
    end
    if has_list then read_list_items(r, s, read_options_head(r, s), new_ack) end
    h = s.header
    if s.inner.kind == "ip4" and s.inner.id <= SWAPPED then
        local id = (offset + s.sn) % 65536
        put(h, s.inner.at + 4, s.inner.id == SWAPPED and swap(id) or id, 2)
    end
    put(h, at + 8, new_ack, 4)
    h[at + 13] = floor(h[at + 13] / 64) * 64 + flags
    -- The irregular chain.
    for _, link in ipairs(s.links) do
        if link.kind == "ip4" or link.kind == "ip6" then
            if link.kind == "ip4" and link.id == RANDOM then fill(s, link.at + 4, r:take(2)) end
            if link.kind == "ip4" and link.id == ZERO then put(h, link.at + 4, 0, 2) end
            if link.at ~= s.inner.at then
                if s.ecn_used then set_tos(s, link, r:u8()) end
                if outer_ttl then set_ttl(s, link, r:u8()) end
            end
        end
    end
    if s.ecn_used then
        local octet = r:u8()
        h[at + 12] = floor(h[at + 12] / 16) * 16 + bits(octet, 2, 4)
        h[at + 13] = h[at + 13] % 64 + octet % 4 * 64
        local tos = tos_of(h, s.inner)
        set_tos(s, s.inner, floor(tos / 4) * 4 + floor(octet / 64))
    end
    fill(s, at + 16, r:take(2))
    write_options(s, r, new_ack)
    s.payload_len = r:left()
    if scaled then
        if s.payload_len == 0 then refuse("scaled number without payload") end
        local high, low = scale(seq, before.payload_len)
        new_seq = (decode(scaled, high, 32) * s.payload_len + low) % 2 ^ 32
    end
    put(h, at + 4, new_seq, 4)
    v2.infer(s, s.payload_len)
    p.header, p.fields = h, nil
    p.good = crc_of(p.crc_bits, h) == p.crc
    -- librohc takes the ACK flag to be as it was before, where a format does not carry it.
    if not p.good and p.kind ~= "co_common" and not flag(before.header[at + 13], 4) then
        h[at + 13] = h[at + 13] - 16
        p.good = crc_of(p.crc_bits, h) == p.crc
    end
    return s, p
end

-- Packets -------------------------------------------------------------------------------------------------------------

local contexts, results, versions -- by channel and CID, by frame, by channel

function rohc.init()
    contexts, results, versions = {}, {}, {}
end

local function new_context(profile)
    if profile == 6 then
        return { profile = 6, header = {}, links = {}, items = {}, list = {}, came = {}, sn = 0, ack_stride = 0,
            payload_len = 0 }
    end
    if profile >= 0x0100 then
        return { profile = profile, header = {}, links = {}, csrcs = {}, points = {}, reorder = 0, coverage = 0,
            stride = 160, time_stride = 0, sn = 0 }
    end
    return { profile = profile, levels = {}, csrcs = new_lists(), sn = 0, ts = 0, stride = 1, time_stride = 0, v = 2,
        p = false, x = false, pt = 0, mode = 1, arrival = 0 }
end

-- The CRC-8 of IR and IR-DYN over `list` up to `stop`, which has its CRC at `crc_at` (RFC 3095 5.9.1).
local function ir_crc(list, start, crc_at, stop)
    local covered = slice(list, start, stop)
    covered[crc_at - start + 1] = 0
    return crc_of(8, covered)
end

local function carry_lists(old, c)
    if not old or old.profile ~= c.profile or not old.levels then return end
    for index, level in ipairs(c.levels) do
        if old.levels[index] then level.lists = clone(old.levels[index].lists) end
    end
    c.csrcs, c.mode = clone(old.csrcs), old.mode
    c.x, c.stride, c.time_stride = old.x, old.stride, old.time_stride
end

-- In R-mode, lists that were received are references by the low octet of the sequence number (RFC 3095 5.8.2.2).
local function name_lists(c)
    local all = { c.csrcs }
    for _, level in ipairs(c.levels) do all[#all + 1] = level.lists end
    for _, lists in ipairs(all) do
        if lists.is_fresh then lists.refs[c.sn % 256] = lists.current end
        lists.is_fresh = nil
    end
end

-- After a copy, the innermost header is a copy of its own.
local function relink(s)
    for _, link in ipairs(s.links) do
        if link.at == s.inner.at then s.inner = link end
    end
end

local function ir_v1(old, profile, frame, r, now)
    local is_ir = frame.first ~= 0xf8
    local c = is_ir and new_context(profile) or clone(old)
    local p = { kind = is_ir and "IR" or "IR-DYN", crc_bits = 8, crc = frame.crc }
    if profile == 6 then
        if is_ir then
            if old and old.profile == 6 then c.items, c.ack_stride = clone(old.items), old.ack_stride end
            tcp.read_static(c, r)
        elseif c.profile ~= 6 then
            refuse("no context")
        else
            relink(c)
        end
        tcp.read_dynamic(c, r)
    else
        if not is_ir then c.profile = profile end
        if is_ir then
            v1.read_static(c, r)
            carry_lists(old, c)
        end
        if not is_ir or flag(frame.first, 0) then
            v1.read_dynamic(c, r, is_ir, p)
            p.has_dynamic = true
        end
    end
    p.good = ir_crc(frame.list, frame.start, frame.crc_at, r.at - 1) == frame.crc
    if profile == 6 and p.good then
        tcp.complete(c, r)
        p.header = c.header
    end
    if p.has_dynamic then
        local rest = r:left() + (profile == 4 and 0 or RTP[profile] and 20 + 4 * #c.csrcs.current or 8)
        c.coverage_inferred, c.coverage_present = c.coverage == rest, c.coverage ~= rest
        p.header = v1.render(c, p, r:left())
        if (p.mode or 0) > 0 then c.mode = p.mode end
        if c.mode == 3 then name_lists(c) end
        c.arrival = now
    end
    return c, p
end

local function ir_v2(profile, frame, r, now)
    local found
    for _, bare in ipairs({ false, true }) do
        local again = reader(frame.list, r.at)
        local ok, s, p = pcall(function()
            local s = new_context(0x0100 + profile)
            v2.read_static(s, again, bare)
            v2.read_dynamic(s, again)
            return s, { kind = "IR", crc_bits = 8, crc = frame.crc,
                good = ir_crc(frame.list, frame.start, frame.crc_at, again.at - 1) == frame.crc }
        end)
        if ok and (p.good or not found) then found = { s, p, again.at } end
        if ok and p.good or profile ~= 4 then
            if not ok then error(s, 0) end
            break
        end
    end
    if not found then refuse("malformed IR") end
    r.at = found[3]
    v2.infer(found[1], r:left())
    found[2].header = found[1].header
    v2.adopt(found[1], now, true)
    return found[1], found[2]
end

local function is_expired(c)
    for _, level in ipairs(c.levels or {}) do
        if level.ttl == 0 then return true end
    end
    for _, link in ipairs(c.profile >= 0x0100 and c.links or {}) do
        if c.header[link.at + (link.kind == "ip4" and 8 or 7)] == 0 and link.kind:sub(1, 2) == "ip" then return true end
    end
    return false
end

-- IR and IR-DYN of either version: the one whose CRC is right, or of the context.
local function refresh(old, frame, now, known)
    local r = reader(frame.list, frame.body)
    local profile = r:u8()
    frame.crc_at, frame.crc = r.at, r:u8()
    if profile == 0 then
        local p = { kind = "IR", crc_bits = 8, crc = frame.crc, payload_at = r.at,
            good = crc_of(8, slice(frame.list, frame.start, frame.crc_at - 1)) == frame.crc }
        return { profile = 0 }, p, r
    end
    if not NAMES[profile] then refuse("unknown profile") end
    local wanted = rohc.prefs.version
    local last = old and old.profile > 0 and old.profile ~= 6 and (old.profile >= 0x0100 and 2 or 1) or known
    local versions = wanted > 0 and { wanted } or last == 2 and { 2, 1 } or { 1, 2 }
    local best, why
    for _, version in ipairs(versions) do
        local again = reader(frame.list, r.at)
        local ok, c, p = pcall(function()
            if version == 2 and frame.first == 0xfd and profile ~= 6 then return ir_v2(profile, frame, again, now) end
            if version == 2 and profile ~= 6 then refuse("IR type octet of version 1") end
            if frame.first == 0xf8 and (not old or old.profile >= 0x0100) then refuse("no context") end
            return ir_v1(old, profile, frame, again, now)
        end)
        -- IR packets of ESP over IPv4 are as long in both versions: no packet was sent with a hop limit of 0.
        local is_likely = ok and p.good and (last == version or not is_expired(c))
        if ok and (is_likely or p.good and not (best and best[2].good) or not best) then best = { c, p, again } end
        if is_likely then break end
        why = why or not ok and c
    end
    local is_undecoded = type(why) == "table" and why.why:find("not decoded")
    if not best or not best[2].good and is_undecoded then error(why, 0) end
    return best[1], best[2], best[3]
end

-- IR-CR: a context replicated from another (RFC 6846 7.2). Its CRC-7 is over the header that comes out.
local function replicate(old, frame, place_of)
    local r = reader(frame.list, frame.body + 1)
    frame.crc_at, frame.crc = r.at, r:u8()
    local octet, base = r:u8(), old
    if flag(octet, 7) then
        local cid = r:u8()
        if cid >= 128 then cid = cid % 64 * 256 + r:u8() end
        if cid ~= frame.cid then base = contexts[place_of(cid)] end
    end
    if not base or base.profile ~= 6 then refuse("no base context") end
    local c, p = clone(base), { kind = "IR-CR", crc_bits = 8, crc = frame.crc }
    relink(c)
    tcp.read_replicate(c, r)
    p.good = ir_crc(frame.list, frame.start, frame.crc_at, r.at - 1) == frame.crc
    if p.good then
        tcp.complete(c, r)
        p.header, p.good = c.header, crc_of(7, c.header) == octet % 128
    end
    return c, p, r
end

local function step(old, frame, now, known, place_of)
    local first = frame.first
    if first == 0xfc or first == 0xfd or first == 0xf8 then
        if first == 0xfc and frame.list[frame.body] == 6 then return replicate(old, frame, place_of) end
        return refresh(old, frame, now, known)
    end
    if not old then refuse("no context") end
    local r, c, p = reader(frame.list, frame.body), nil, nil
    if old.profile == 0 then
        local p = { kind = "Normal", crc_bits = 0, good = true, header = {} }
        p.packet = append({ first }, slice(frame.list, frame.body, #frame.list))
        return old, p, r
    end
    if old.profile == 6 then
        c, p = tcp.compressed(old, first, r)
        return c, p, r
    end
    if old.profile >= 0x0100 then
        c, p = v2.compressed(old, first, r, now)
        v2.finish(c, p, r)
        if p.good and p.control_good ~= false and not p.is_late then v2.adopt(c, now) end
        return c, p, r
    end
    if #old.levels == 0 then refuse("no context") end
    c, p = v1.compressed(old, first, r, now)
    v1.finish(old, c, p, r)
    if (p.mode or 0) > 0 and p.crc_bits == 7 then c.mode = p.mode end
    c.arrival = now
    if c.mode == 3 and p.crc_bits == 7 then name_lists(c) end
    return c, p, r
end

-- Reads the CID and decodes the header at `start` of the octets `list`.
local function decode(key, list, start, large, now)
    local frame = { list = list, start = start, cid = 0 }
    local at = start
    if not large and list[at] >= 0xe1 and list[at] <= 0xef then
        frame.cid, at = list[at] % 16, at + 1
    end
    local r = reader(list, at)
    frame.first = r:u8()
    if large then
        frame.cid = r:peek() < 128 and r:u8() or r:u16() % 0x4000
    end
    frame.body = r.at
    local place = key .. ":" .. frame.cid
    local old = contexts[place]
    local result = { cid = frame.cid }
    local ok, c, p, rest = pcall(step, old, frame, now, versions[key], function(cid) return key .. ":" .. cid end)
    if not ok then
        if type(c) ~= "table" then error(c, 0) end
        result.note, result.profile, result.status = c.why, old and old.profile, 2
        if c.why:find("not decoded") then contexts[place] = nil end
        return result
    end
    result.p, result.profile = p, c and c.profile or old and old.profile
    result.note = p.note
    local good = p.good and p.control_good ~= false
    result.status = c == nil and 2 or p.crc_bits == 0 and 2 or p.good and 1 or 0
    if not c then return result end
    result.header_end = rest.at - 1
    -- Late packets of version 2 and packets of R-mode without a CRC update nothing.
    if good and p.kind == "IR" and c.profile > 0 and c.profile ~= 6 then
        versions[key] = c.profile >= 0x0100 and 2 or 1
    end
    if good and not p.is_late and (p.crc_bits > 0 or p.kind == "Normal") then contexts[place] = c end
    if c.profile == 6 then
        result.sn = c.sn
    elseif c.profile > 0 and c.sn then
        result.sn, result.mode, result.reorder = c.sn, c.profile < 0x0100 and c.mode or nil,
            c.profile >= 0x0100 and c.reorder or nil
        local is_rtp = RTP[c.profile % 256]
        if is_rtp and p.header then
            result.ts, result.stride = c.ts or u32(c.header, c.chain_len + 13), c.stride
            result.marker = p.marker and 1 or 0
            if c.profile >= 0x0100 then result.marker = bits(c.header[c.chain_len + 10], 7, 1) end
        end
        local inner = c.profile >= 0x0100 and c.inner or c.levels[#c.levels]
        if inner and inner.kind == "ip4" then result.ip_id = u16(c.header, inner.at + 4) end
        if inner and inner.v == 4 then result.ip_id = inner.id end
    end
    if good and p.packet then
        result.packet = p.packet
    elseif good and p.header then
        result.restored = #p.header
        result.packet = append(clone(p.header), slice(list, rest.at, #list))
    elseif good and c.profile == 0 and rest.at <= #list then
        result.packet = slice(list, rest.at, #list)
    end
    if result.packet then
        local text = {}
        for index = 1, #result.packet do text[index] = string.char(result.packet[index]) end
        result.packet = table.concat(text)
    end
    result.p.header, result.p.packet = nil, nil
    return result
end

-- Feedback ------------------------------------------------------------------------------------------------------------

local function profile_of_feedback(key, cid)
    local there = contexts[key .. ":" .. cid]
    return there and there.profile
end

local function show_feedback(tree, tvb, at, list, start, large, key)
    local length, data_at = list[start] % 8, start + 1
    if length == 0 then length, data_at = list[start + 1] or 0, start + 2 end
    if data_at + length - 1 > #list or length == 0 then return nil end
    local branch = tree:add(f.feedback, tvb(at + start - 1, data_at - start + length))
    local data = slice(list, data_at, data_at + length - 1)
    local field, cid = 1, 0
    if large then
        cid, field = data[1], 2
        if cid >= 128 then cid, field = (cid % 64) * 256 + (data[2] or 0), 3 end
    elseif data[1] >= 0xe1 and data[1] <= 0xef then
        cid, field = data[1] % 16, 2
    end
    branch:add(f.cid, cid)
    local left = length - field + 1
    local profile = profile_of_feedback(key, cid)
    if left == 1 then
        branch:add(f.ack, 0)
        branch:add(f.feedback_sn, data[field])
        return data_at + length
    end
    if left < 2 then return data_at + length end
    branch:add(f.ack, bits(data[field], 6, 2))
    local sealed = profile and (profile == 6 or profile >= 0x0100)
    if sealed and left >= 3 then
        branch:add(f.feedback_sn, u16(data, field) % 0x4000)
        local copy = clone(data)
        copy[field + 2] = 0
        branch:add(f.feedback_crc, crc_of(8, copy) == data[field + 2] and 1 or 0)
    elseif not sealed then
        branch:add(f.mode, bits(data[field], 4, 2))
        branch:add(f.feedback_sn, u16(data, field) % 0x1000)
        local option = field + 2
        while option <= length do
            if floor(data[option] / 16) == 1 and data[option + 1] then
                local copy = clone(data)
                copy[option + 1] = 0
                branch:add(f.feedback_crc, crc_of(8, copy) == data[option + 1] and 1 or 0)
            end
            option = option + 1 + data[option] % 16
        end
    end
    return data_at + length
end

-- Tree ----------------------------------------------------------------------------------------------------------------

local function show(result, tvb, tree, pinfo, root, start)
    local p = result.p or {}
    local stop = result.header_end or tvb:len()
    local range = tvb(start - 1, math.max(stop - start + 1, 0))
    tree:add(f.cid, result.cid)
    if result.profile then tree:add(f.profile, result.profile) end
    if p.kind then tree:add(f.kind, p.kind):set_generated() end
    if range:len() > 0 then tree:add(f.header, range) end
    if p.crc then
        tree:add(f.crc, p.crc)
        tree:add(f.crc_bits, p.crc_bits):set_generated()
    end
    local status = tree:add(f.crc_status, result.status)
    status:set_generated()
    if result.status == 0 then status:add_proto_expert_info(e_crc, "Bad CRC-" .. p.crc_bits) end
    if p.control then
        tree:add(f.control_crc, p.control)
        local control = tree:add(f.control_crc_status, p.control_good and 1 or 0)
        control:set_generated()
        if not p.control_good then control:add_proto_expert_info(e_crc, "Bad CRC-3 of the control fields") end
    end
    for _, name in ipairs({ "sn", "ts", "stride", "marker", "ip_id", "mode", "reorder" }) do
        local field = name == "stride" and f.ts_stride or f[name]
        if result[name] then tree:add(field, result[name]):set_generated() end
    end
    if result.note then
        local note = tree:add(f.note, result.note)
        note:set_generated()
        note:add_proto_expert_info(e_note, result.note)
    end
    pinfo.cols.info = string.format("%s CID %d %s%s%s", result.profile and NAMES[result.profile] or "?", result.cid,
        p.kind or "?", result.sn and " SN " .. string.format("%d", result.sn) or "",
        result.status == 0 and " [bad CRC]" or result.note and " [" .. result.note .. "]" or "")
    if not result.packet or #result.packet == 0 then return end
    local whole = ByteArray.new(result.packet, true):tvb("Restored packet")
    if result.restored then tree:add(f.restored, whole(0, result.restored)):set_generated() end
    if rohc.prefs.show_packet then
        -- A payload that is not what its port promises is shown as such, and is no error of this script.
        local inner = Dissector.get(floor(result.packet:byte(1) / 16) == 6 and "ipv6" or "ip")
        pcall(Dissector.call, inner, whole, pinfo, root)
    end
end

local function dissect(tvb, pinfo, root, large)
    pinfo.cols.protocol = "ROHC"
    local tree = root:add(rohc, tvb())
    local list = octets(tvb:raw(0, tvb:len()))
    local key = tostring(pinfo.src) .. tostring(pinfo.dst) .. tostring(pinfo.src_port) .. tostring(pinfo.p2p_dir or "")
    local at = 1
    while list[at] == 0xe0 do at = at + 1 end
    if at > 1 then tree:add(f.padding, tvb(0, at - 1)) end
    while list[at] and list[at] >= 0xf0 and list[at] <= 0xf7 do
        local ok, after = pcall(show_feedback, tree, tvb, 0, list, at, large, key)
        if not ok or not after then
            tree:add_proto_expert_info(e_note, "malformed feedback")
            return tvb:len()
        end
        at = after
    end
    if not list[at] then
        pinfo.cols.info = "Feedback or padding"
        return tvb:len()
    end
    if list[at] >= 0xfe then
        tree:add(f.segment, tvb(at - 1))
        tree:add_proto_expert_info(e_note, "segments are not joined")
        return tvb:len()
    end
    local id = pinfo.number .. ":" .. tvb:offset()
    if not results[id] then
        local now = tonumber(tostring(pinfo.abs_ts)) or 0
        local ok, result = pcall(decode, key, list, at, large, now)
        results[id] = ok and result or
            { cid = 0, status = 2, note = type(result) == "table" and result.why or tostring(result) }
    end
    show(results[id], tvb, tree, pinfo, root, at)
    return tvb:len()
end

function rohc.dissector(tvb, pinfo, root)
    return dissect(tvb, pinfo, root, rohc.prefs.large_cids)
end

DissectorTable.get("wtap_encap"):add(wtap.USER0, rohc)
DissectorTable.get("udp.port"):add_for_decode_as(rohc)

-- Frames of PPP say how large CIDs are (RFC 3241 2.1).
for protocol, name in pairs({ [0x0003] = "small", [0x0005] = "large" }) do
    local proto = Proto("rohcx_ppp_" .. name, "ROHC with contexts, " .. name .. " CIDs")
    function proto.dissector(tvb, pinfo, root)
        return dissect(tvb, pinfo, root, name == "large")
    end
    DissectorTable.get("ppp.protocol"):set(protocol, proto)
end

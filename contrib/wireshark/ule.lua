-- Wireshark dissector for Unidirectional Lightweight Encapsulation (RFC 4326, RFC 5163) in MPEG-2 transport streams.
--
-- Wireshark dissects TS packets but not what ULE puts into them. This script reassembles the SNDUs of each PID that a PMT
-- calls ULE (stream type 0x91), or that the preference "ule.pids" names, checks their CRC, shows their headers and hands
-- their PDUs to the dissector of their EtherType:
--
--     tshark -X lua_script:contrib/wireshark/ule.lua -o ule.pids:0x201 -r stream.ts
--     cp contrib/wireshark/ule.lua ~/.local/lib/wireshark/plugins/        # for good
--
-- Licence: MIT OR Apache-2.0, as the rest of bentpipe.

local ule = Proto("ule", "Unidirectional Lightweight Encapsulation")

ule.prefs.pids = Pref.string("PIDs", "", "PIDs that carry ULE, beside those that a PMT says, as in \"0x201,514\"")

local TYPES = {
    [0x0000] = "Test SNDU", [0x0001] = "Bridged frame", [0x0002] = "TS-Concat", [0x0003] = "PDU-Concat",
    [0x0800] = "IPv4", [0x0806] = "ARP", [0x22f1] = "ROHC", [0x86dd] = "IPv6",
}
local OPTIONS = { [0] = "Extension-Padding", [1] = "TimeStamp" }

local f = {
    d = ProtoField.bool("ule.d", "Destination Address Absent", 16, nil, 0x8000),
    length = ProtoField.uint16("ule.length", "Length", base.DEC, nil, 0x7fff),
    type = ProtoField.uint16("ule.type", "Type", base.HEX, TYPES),
    npa = ProtoField.ether("ule.npa", "Destination NPA address"),
    option = ProtoField.uint16("ule.option", "Optional extension header", base.HEX),
    option_data = ProtoField.bytes("ule.option.data", "Extension data"),
    timestamp = ProtoField.uint32("ule.timestamp", "TimeStamp (microseconds past the hour)"),
    pdu = ProtoField.bytes("ule.pdu", "PDU"),
    pdu_length = ProtoField.uint16("ule.pdu.length", "PDU length", base.DEC, nil, 0x7fff),
    crc = ProtoField.uint32("ule.crc", "CRC-32", base.HEX),
    crc_status = ProtoField.uint8("ule.crc.status", "CRC-32 status", base.DEC, { [0] = "Bad", [1] = "Good" }),
    pid = ProtoField.uint16("ule.pid", "PID", base.HEX),
    problem = ProtoField.string("ule.problem", "Problem"),
}
ule.fields = f

local e_problem = ProtoExpert.new("ule.expert", "ULE problem", expert.group.MALFORMED, expert.severity.WARN)
local e_crc = ProtoExpert.new("ule.crc.bad", "Bad CRC-32", expert.group.CHECKSUM, expert.severity.ERROR)
ule.experts = { e_problem, e_crc }

local mp2t = Field.new("mp2t")
local stream_types = Field.new("mpeg_pmt.stream.type")
local stream_pids = Field.new("mpeg_pmt.stream.elementary_pid")

-- Lua 5.2 has bit32, Wireshark's own library is bit, and Lua 5.3 has operators that others cannot even parse.
local xor = (bit32 or bit or {}).bxor or load("return function(a, b) return (a ~ b) & 0xffffffff end")()
local lshift = (bit32 or bit or {}).lshift or load("return function(a, n) return (a << n) & 0xffffffff end")()

local TABLE = {}
for byte = 0, 255 do
    local register = lshift(byte, 24) % 4294967296
    for _ = 1, 8 do
        local carry = register >= 2147483648
        register = (register * 2) % 4294967296
        if carry then register = xor(register, 0x04c11db7) % 4294967296 end
    end
    TABLE[byte] = register
end

-- The register after bytes of a string: zero if a right CRC is at its end.
local function crc32(bytes)
    local register = 4294967295
    for at = 1, #bytes do
        local high = math.floor(register / 16777216)
        register = xor((register * 256) % 4294967296, TABLE[xor(high, bytes:byte(at)) % 256]) % 4294967296
    end
    return register
end

local function be16(bytes, at)
    local high, low = bytes:byte(at, at + 1)
    return high * 256 + low
end

-- Per PID: the counter of its last packet, and the SNDU under way.
local streams
-- PIDs that carry ULE.
local pids
-- By frame: what was found in it, each an SNDU or a problem.
local frames

function ule.init()
    streams, pids, frames = {}, {}, {}
    for number in ule.prefs.pids:gmatch("%w+") do
        local pid = tonumber(number)
        if pid then pids[pid] = true end
    end
end

-- The whole length of an SNDU that starts with these two bytes, or nil and why not.
local function sndu_length(first)
    local length = first % 0x8000
    if first == 0xffff then return nil, "End Indicator where an SNDU must start" end
    if length <= 4 or (first < 0x8000 and length < 10) then return nil, "SNDU length " .. length end
    return length + 4
end

-- SNDUs from the start of a string on; what does not end in it is under way then.
local function sndus(stream, bytes, behind, found)
    while #bytes >= 2 do
        local first = be16(bytes, 1)
        if behind and first == 0xffff then return end
        local length, why = sndu_length(first)
        if not length then
            found(nil, why)
            return
        end
        if length > #bytes then
            stream.bytes, stream.needed = bytes, length
            return
        end
        found(bytes:sub(1, length))
        bytes, behind = bytes:sub(length + 1), true
    end
    if #bytes == 1 and bytes:byte(1) ~= 0xff then found(nil, "byte that is no stuffing") end
end

-- Takes in a TS packet of a ULE stream (RFC 4326, section 7).
local function packet(stream, bytes, found)
    local flags, control = bytes:byte(2), bytes:byte(4)
    local function lose(why)
        if stream.needed then found(nil, why) end
        stream.bytes, stream.needed = nil, nil
    end
    if flags >= 0x80 then
        stream.counter = nil
        return lose("SNDU lost by a transport error")
    end
    if math.floor(control / 16) ~= 1 then return end
    local counter = control % 16
    if counter == stream.counter then return end
    if stream.counter and counter ~= (stream.counter + 1) % 16 then lose("SNDU lost by a continuity error") end
    stream.counter = counter
    local payload = bytes:sub(5)
    local starts = math.floor(flags / 64) % 2 == 1
    local missing = stream.needed and stream.needed - #stream.bytes
    if starts then
        local pointer = payload:byte(1)
        payload = payload:sub(2)
        if pointer > 181 then return lose("payload pointer over 181") end
        if missing and missing ~= pointer then
            lose("payload pointer is not where the SNDU ends")
            missing = nil
        end
        if missing then
            found(stream.bytes .. payload:sub(1, pointer))
            stream.bytes, stream.needed = nil, nil
        end
        sndus(stream, payload:sub(pointer + 1), missing ~= nil, found)
    elseif missing then
        if missing > #payload then
            stream.bytes = stream.bytes .. payload
        else
            found(stream.bytes .. payload:sub(1, missing))
            stream.bytes, stream.needed = nil, nil
        end
    end
end

local dissect_payload

local function dissect_concat(tvb, at, pinfo, tree, root)
    tree:add(f.type, tvb(at, 2))
    local kind = tvb(at, 2):uint()
    at = at + 2
    while at + 2 <= tvb:len() do
        local length = tvb(at, 2):uint() % 0x8000
        tree:add(f.pdu_length, tvb(at, 2))
        at = at + 2
        if at + length > tvb:len() then
            tree:add_proto_expert_info(e_problem, "PDU-Concat size mismatch")
            return
        end
        if length > 0 then dissect_payload(kind, tvb(at, length):tvb(), 0, pinfo, tree, root) end
        at = at + length
    end
end

-- What a Type field announces, from `at` to the end of `tvb`.
function dissect_payload(kind, tvb, at, pinfo, tree, root)
    while kind >= 0x100 and kind < 0x600 do
        local length = math.floor(kind / 256) * 2 - 2
        if at + length + 2 > tvb:len() then
            tree:add_proto_expert_info(e_problem, "extension headers beyond the SNDU")
            return
        end
        local option = tree:add(f.option, tvb(at, length + 2), kind)
        option:append_text(" (" .. (OPTIONS[kind % 256] or "unknown") .. ")")
        if kind == 0x0301 then
            option:add(f.timestamp, tvb(at, 4))
        elseif length > 0 then
            option:add(f.option_data, tvb(at, length))
        end
        option:add(f.type, tvb(at + length, 2))
        kind = tvb(at + length, 2):uint()
        at = at + length + 2
    end
    if at >= tvb:len() then return end
    local pdu = tvb(at):tvb()
    if kind == 0x0000 then
        tree:add(f.pdu, pdu(0))
    elseif kind == 0x0001 then
        Dissector.get("eth_withoutfcs"):call(pdu, pinfo, root)
    elseif kind == 0x0002 then
        for offset = 0, pdu:len() - 188, 188 do Dissector.get("mp2t"):call(pdu(offset, 188):tvb(), pinfo, root) end
    elseif kind == 0x0003 then
        if pdu:len() >= 2 then dissect_concat(pdu, 0, pinfo, tree, root) end
    elseif kind < 0x100 then
        tree:add_proto_expert_info(e_problem, "unknown mandatory extension header")
    elseif DissectorTable.get("ethertype"):try(kind, pdu, pinfo, root) == 0 then
        tree:add(f.pdu, pdu(0))
    end
end

local function dissect_sndu(entry, pinfo, root)
    local tvb = ByteArray.new(entry.sndu, true):tvb("ULE SNDU")
    local first, kind = tvb(0, 2):uint(), tvb(2, 2):uint()
    local tree = root:add(ule, tvb())
    tree:append_text(", PID " .. string.format("0x%04x", entry.pid) .. ", " .. (TYPES[kind] or string.format("0x%04x", kind)))
    tree:add(f.pid, entry.pid):set_generated()
    tree:add(f.d, tvb(0, 2))
    tree:add(f.length, tvb(0, 2))
    tree:add(f.type, tvb(2, 2))
    local at = 4
    if first < 0x8000 then
        tree:add(f.npa, tvb(4, 6))
        at = 10
    end
    local good = crc32(entry.sndu) == 0
    local crc = tree:add(f.crc, tvb(tvb:len() - 4, 4))
    crc:add(f.crc_status, good and 1 or 0):set_generated()
    if not good then
        crc:add_proto_expert_info(e_crc)
        return
    end
    if tvb:len() - 4 > at then dissect_payload(kind, tvb(0, tvb:len() - 4):tvb(), at, pinfo, tree, root) end
end

-- Which PIDs the PMTs in a frame call ULE.
local function learn()
    local types, elementary = { stream_types() }, { stream_pids() }
    for index, stream_type in ipairs(types) do
        if stream_type.value == 0x91 and elementary[index] then pids[elementary[index].value] = true end
    end
end

local function collect(found)
    for _, info in ipairs({ mp2t() }) do
        local bytes = info.range:bytes():raw()
        local pid = #bytes == 188 and be16(bytes, 2) % 0x2000
        if pid and pids[pid] then
            streams[pid] = streams[pid] or {}
            packet(streams[pid], bytes, function(sndu, problem)
                found[#found + 1] = { pid = pid, sndu = sndu, problem = problem }
            end)
        end
    end
end

function ule.dissector(_, pinfo, root)
    if not frames[pinfo.number] then
        frames[pinfo.number] = {}
        learn()
        collect(frames[pinfo.number])
    end
    for _, entry in ipairs(frames[pinfo.number]) do
        if entry.sndu then
            dissect_sndu(entry, pinfo, root)
        else
            local tree = root:add(ule)
            tree:add(f.pid, entry.pid):set_generated()
            tree:add(f.problem, entry.problem):set_generated()
            tree:add_proto_expert_info(e_problem, entry.problem)
        end
    end
end

register_postdissector(ule)

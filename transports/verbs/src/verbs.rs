//! [`Verbs`]: a device of the system as a host channel adapter.

use crate::bell::VerbsBell;
use crate::choice::Choice;
use crate::completions::{Queue, RECEIVE, translate};
use crate::context::{Context, Facts, MAX_SEGMENTS, errno, failed};
use crate::crowd::Crowd;
use crate::inner::{Inner, PIECE};
use crate::memory::Memory;
use crate::pairs::{Pair, empty_plan, refusal};
use crate::requests::{EMPTY_RECEIVE, EMPTY_REQUEST, EMPTY_SGE, fill, segments_of};
use crate::route::{PortFacts, RouteWish};
use crate::routes::Routes;
use crate::sys::{
    IBV_SEND_INLINE, IBV_SEND_SIGNALED, IBV_WC_SUCCESS, IBV_WR_RDMA_WRITE, IBV_WR_SEND, ibv_qp_cap,
    ibv_recv_wr, ibv_send_wr, ibv_sge, ibv_srq, ibv_srq_attr, ibv_srq_init_attr, wr, wr_rdma,
};
use libc::c_int;
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::Instant;
use weft_api::numbers::NumberMap;
use weft_api::sleepers::Sleepers;
use weft_api::verbs::{
    Access, CompletedWork, Completion, CompletionQueueId, Data, DeviceAddress, DeviceBuffer, Hca, HcaLimits,
    HcaRefusal, Nanos, PortAddress, QueuePairNumber, QueuePairPlan, QueuePairState, RegionKeys, Remote,
    RemoteAddress, Route, Segment, Sending, Service, SharedReceiveQueueId, Work, WorkRequest,
};
use weft_types::Result as WeftResult;

/// Requests of one doorbell.
const CHAIN: usize = 16;

/// An opened device of the system; see the crate.
#[derive(Debug)]
pub struct Verbs {
    // What hangs on the context is given back in `drop`, before it.
    context: Arc<Context>,
    choice: Choice,
    limits: HcaLimits,
    facts: Facts,
    queues: Vec<Queue>,
    receives: Vec<*mut ibv_srq>,
    pairs: NumberMap<Pair>,
    memory: Memory,
    inner: Option<Inner>,
    sleepers: Arc<Sleepers>,
    started: Instant,
    doorbells: u64,
    crowd: Crowd,
    routes: Routes,
}

// SAFETY: the library's objects belong to the process, not to a thread; nobody but us has these.
unsafe impl Send for Verbs {}

impl Verbs {
    /// Opens what was chosen.
    ///
    /// # Errors
    /// What the library refused, and what to do about it.
    pub fn open(choice: Choice) -> WeftResult<Verbs> {
        Verbs::open_with(choice, RouteWish::default())
    }

    /// As [`Verbs::open`], with a user's wishes of the routes to peers.
    ///
    /// # Errors
    /// As [`Verbs::open`], and wishes that cannot be had.
    pub fn open_with(choice: Choice, wish: RouteWish) -> WeftResult<Verbs> {
        let (context, limits, mut facts) = Context::open(&choice)?;
        let sleepers = Sleepers::new().map_err(|error| {
            failed(
                "no eventfd to wake threads with",
                error.raw_os_error().unwrap_or(0),
                "Are too many files open (ulimit -n)?",
            )
        })?;
        let sleepers = Arc::new(sleepers);
        let port = PortFacts {
            link: choice.link,
            mtu: limits.mtu,
            bytes_per_second: limits.bandwidth,
            lid: choice.address.lid,
        };
        let routes = Routes::new(&choice, wish, port, &sleepers)?;
        let inner = Inner::open(&context);
        facts.inner_memory = inner.as_ref().map_or(0, Inner::bytes);
        Ok(Verbs {
            context: Arc::new(context),
            choice,
            limits,
            facts,
            queues: Vec::new(),
            receives: Vec::new(),
            pairs: NumberMap::default(),
            memory: Memory::default(),
            inner,
            sleepers,
            started: Instant::now(),
            doorbells: 0,
            crowd: Crowd::default(),
            routes,
        })
    }

    /// What was opened.
    pub fn choice(&self) -> &Choice {
        &self.choice
    }

    /// What was found out about it.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Who is asked for routes, or why nobody is, and what is set for all of them.
    pub fn routes(&self) -> String {
        self.routes.summary()
    }

    /// The state of a queue pair; `None` when there is no such one.
    pub fn state(&self, number: QueuePairNumber) -> Option<QueuePairState> {
        self.pairs.get(&number.0).map(|pair| pair.state)
    }

    /// Posts a chain of at most [`CHAIN`] requests with one call of the driver.
    #[inline]
    fn post_chain(
        &mut self,
        number: QueuePairNumber,
        requests: &[WorkRequest<'_>],
    ) -> Result<(), HcaRefusal> {
        let Verbs { pairs, context, choice, limits, doorbells, crowd, memory, inner, routes, .. } = self;
        let pair = pairs.get_mut(&number.0).ok_or(HcaRefusal::Unknown)?;
        if !pair.takes_sends() {
            return Err(HcaRefusal::State(pair.state));
        }
        if !pair.has_room(requests.len() as u32) {
            return Err(HcaRefusal::Full);
        }
        let mut sges = [EMPTY_SGE; MAX_SEGMENTS + CHAIN];
        let mut chain = [EMPTY_REQUEST; CHAIN];
        let mut pieces = [None; CHAIN];
        let (mut used, mut unheard) = (0, 0);
        for (place, request) in chain.iter_mut().zip(requests) {
            let count = segments_of(&request.data);
            if count > limits.max_segments as usize || used + count > sges.len() {
                return Err(HcaRefusal::Size);
            }
            let parts = &mut sges[used..used + count];
            used += count;
            let (id, signaled) = pair.number(request.id, request.signaled, unheard);
            unheard = if signaled { 0 } else { unheard + 1 };
            let target = match request.work {
                Work::Datagram { to, by, .. } => Some(pair.handle(context, (choice, routes), to, by)?),
                _ => None,
            };
            if target.is_some() != (pair.service == Service::Datagram) {
                return Err(HcaRefusal::Invalid);
            }
            fill(place, request, parts, limits, target)?;
            place.wr_id = id;
            if signaled {
                place.send_flags |= IBV_SEND_SIGNALED;
            }
        }
        if let Some(inner) = inner {
            for ((place, request), piece) in chain.iter_mut().zip(requests).zip(&mut pieces) {
                *piece = move_in(inner, memory, request, place);
            }
        }
        for at in 1..requests.len() {
            chain[at - 1].next = &mut chain[at];
        }
        *doorbells += 1;
        let mut refused = null_mut();
        // SAFETY: the queue pair is live; the chain ends with a null pointer and, as its segments, lies on our stack, which the
        // driver reads during the call. Registered memory is the poster's promise (see `Hca::post_send`), and the device looks
        // at its keys.
        let result = unsafe {
            let post = (*(*pair.raw).context).ops.post_send.ok_or(HcaRefusal::Invalid)?;
            post(pair.raw, chain.as_mut_ptr(), &mut refused)
        };
        let posted = if result == 0 {
            requests.len()
        } else {
            chain[..requests.len()].iter().position(|place| std::ptr::eq(place, refused)).unwrap_or(0)
        };
        crowd.posted += posted as u32;
        for (place, piece) in chain[..posted].iter().zip(&mut pieces) {
            pair.posted(place.send_flags & IBV_SEND_SIGNALED != 0);
            if let Some(piece) = piece.take() {
                pair.uses(piece);
            }
        }
        if let Some(inner) = inner {
            pieces.iter().flatten().for_each(|&piece| inner.take_back(piece));
        }
        match result {
            0 => Ok(()),
            libc::ENOMEM => Err(HcaRefusal::Full),
            -1 => Err(refusal(errno())),
            errno => Err(refusal(errno)),
        }
    }
}

/// Has a short request send from the device's own memory, if it can: the piece.
#[inline]
fn move_in(
    inner: &mut Inner,
    memory: &Memory,
    request: &WorkRequest<'_>,
    place: &mut ibv_send_wr,
) -> Option<u8> {
    let (Data::Segments(segments), Work::Send { .. } | Work::Write { .. }) = (request.data, request.work)
    else {
        return None;
    };
    let bytes: usize = segments.iter().map(|segment| segment.length as usize).sum();
    if bytes == 0 || bytes > PIECE || !segments.iter().all(|segment| memory.is_own(segment)) {
        return None;
    }
    let parts = segments.iter().map(|segment| memory.bytes(segment.address, segment.length as usize));
    let (piece, part) = inner.put(parts)?;
    // SAFETY: as many entries as the request has segments, at least one, on the caller's stack.
    unsafe { *place.sg_list = part };
    place.num_sge = 1;
    Some(piece)
}

impl Verbs {
    /// Posts a few bytes inline: one request, written once.
    #[inline(always)]
    fn post_few(
        &mut self,
        number: QueuePairNumber,
        id: u64,
        bytes: &[u8],
        signaled: bool,
        (opcode, rdma): (c_int, wr_rdma),
    ) -> Result<(), HcaRefusal> {
        let pair = self.pairs.get_mut(&number.0).ok_or(HcaRefusal::Unknown)?;
        if !pair.takes_sends() {
            return Err(HcaRefusal::State(pair.state));
        }
        if !pair.has_room(1) {
            return Err(HcaRefusal::Full);
        }
        if bytes.len() > self.limits.max_inline as usize {
            return Err(HcaRefusal::Size);
        }
        let (id, signaled) = pair.number(id, signaled, 0);
        let mut part = ibv_sge { addr: bytes.as_ptr() as u64, length: bytes.len() as u32, lkey: 0 };
        let mut request = ibv_send_wr {
            wr_id: id,
            sg_list: &mut part,
            num_sge: 1,
            opcode,
            send_flags: IBV_SEND_INLINE | if signaled { IBV_SEND_SIGNALED } else { 0 },
            wr: wr { rdma },
            ..EMPTY_REQUEST
        };
        self.doorbells += 1;
        let mut refused = null_mut();
        // SAFETY: the queue pair is live; the request ends with a null pointer and lies, as its segment, on our stack, and the
        // bytes are borrowed: the driver copies them during the call.
        let result = unsafe {
            let post = (*(*pair.raw).context).ops.post_send.ok_or(HcaRefusal::Invalid)?;
            post(pair.raw, &mut request, &mut refused)
        };
        match result {
            0 => {
                self.crowd.posted += 1;
                pair.posted(signaled);
                Ok(())
            }
            libc::ENOMEM => Err(HcaRefusal::Full),
            -1 => Err(refusal(errno())),
            errno => Err(refusal(errno)),
        }
    }
}

impl Hca for Verbs {
    type Bell = VerbsBell;

    fn limits(&self) -> HcaLimits {
        self.limits
    }

    fn address(&self) -> DeviceAddress {
        self.choice.address
    }

    fn addresses(&self) -> Vec<PortAddress> {
        self.choice.gids.iter().map(|gid| gid.address).collect()
    }

    fn route(&mut self, to: DeviceAddress, by: u8) -> Route {
        let route = self.routes.route((to, by), self.now());
        for key in self.routes.take_changed() {
            self.pairs.values_mut().for_each(|pair| pair.outdate(key));
        }
        route
    }

    fn renew_route(&mut self, to: DeviceAddress, by: u8) {
        self.routes.renew((to, by), self.now());
    }

    fn route_text(&self, to: DeviceAddress, by: u8) -> Option<String> {
        self.routes.text((to, by))
    }

    fn now(&self) -> Nanos {
        self.started.elapsed().as_nanos() as Nanos
    }

    fn allocate(&mut self, bytes: u64, access: Access) -> Result<DeviceBuffer, HcaRefusal> {
        self.memory.allocate(&self.context, bytes, access)
    }

    fn register(&mut self, address: u64, length: u64, access: Access) -> Result<RegionKeys, HcaRefusal> {
        self.memory.register(&self.context, self.facts.on_demand, (address, length), access)
    }

    fn deregister(&mut self, keys: RegionKeys) {
        self.memory.deregister(&self.context, keys);
    }

    fn bytes(&self, address: u64, length: usize) -> &[u8] {
        self.memory.bytes(address, length)
    }

    fn word(&self, address: u64) -> u64 {
        self.memory.word(address)
    }

    fn bytes_mut(&mut self, address: u64, length: usize) -> &mut [u8] {
        self.memory.bytes_mut(address, length)
    }

    fn make_completion_queue(&mut self, depth: u32) -> Result<CompletionQueueId, HcaRefusal> {
        let raw = self.context.make_queue(depth).map_err(refusal)?;
        self.queues.push(Queue::new(raw));
        self.crowd.room += depth;
        Ok(CompletionQueueId(self.queues.len() as u32 - 1))
    }

    fn make_shared_receive_queue(&mut self, depth: u32) -> Result<SharedReceiveQueueId, HcaRefusal> {
        let attr = ibv_srq_attr { max_wr: depth, max_sge: 1, srq_limit: 0 };
        let mut plan = ibv_srq_init_attr { srq_context: null_mut(), attr };
        // SAFETY: the domain is live; the library writes what it gave into the plan.
        let queue = unsafe { (self.context.library.ibv_create_srq)(self.context.domain(), &mut plan) };
        if queue.is_null() {
            return Err(refusal(errno()));
        }
        self.receives.push(queue);
        self.crowd.room = self.crowd.room.saturating_sub(depth);
        Ok(SharedReceiveQueueId(self.receives.len() as u32 - 1))
    }

    fn make_queue_pair(&mut self, plan: QueuePairPlan) -> Result<QueuePairNumber, HcaRefusal> {
        let queue = |id: CompletionQueueId| self.queues.get(id.0 as usize).map(|queue| queue.raw);
        let send_cq = queue(plan.send_queue).ok_or(HcaRefusal::Unknown)?;
        let recv_cq = queue(plan.receive_queue).ok_or(HcaRefusal::Unknown)?;
        // Receives are posted to shared queues only.
        let shared = plan.shared_receive_queue.ok_or(HcaRefusal::Invalid)?;
        let srq = *self.receives.get(shared.0 as usize).ok_or(HcaRefusal::Unknown)?;
        let cap = ibv_qp_cap {
            max_send_wr: plan.max_send,
            max_recv_wr: 0,
            max_send_sge: self.limits.max_segments,
            max_recv_sge: 1,
            max_inline_data: self.limits.max_inline,
        };
        let attr = crate::sys::ibv_qp_init_attr { send_cq, recv_cq, srq, ..empty_plan(cap) };
        let (number, pair) = Pair::make(&self.context, &self.choice, attr, (plan.service, plan.qkey))?;
        self.pairs.insert(number.0, pair);
        Ok(number)
    }

    fn open_queue_pair(
        &mut self,
        number: QueuePairNumber,
        ends: Option<(Remote, Sending)>,
    ) -> Result<(), HcaRefusal> {
        let pair = self.pairs.get_mut(&number.0).ok_or(HcaRefusal::Unknown)?;
        pair.open(&self.context, (&self.choice, &self.routes), ends)
    }

    fn resume_queue_pair(&mut self, number: QueuePairNumber) -> Result<(), HcaRefusal> {
        self.pairs.get_mut(&number.0).ok_or(HcaRefusal::Unknown)?.resume(&self.context)
    }

    fn stop_queue_pair(&mut self, number: QueuePairNumber) {
        if let Some(pair) = self.pairs.get_mut(&number.0) {
            pair.fail(&self.context);
            pair.state = QueuePairState::Error;
        }
    }

    fn finish_queue_pair(&mut self, number: QueuePairNumber) {
        let Some(pair) = self.pairs.get(&number.0) else { return };
        // Drivers of cards take from the queues what is left of a pair that is reset. The kernel's soft-RoCE leaves it, and
        // waits for what it was at work at.
        self.queues.iter_mut().for_each(Queue::take_all);
        pair.reset(&self.context);
        self.queues.iter_mut().for_each(Queue::take_all);
    }

    fn destroy_queue_pair(&mut self, number: QueuePairNumber) {
        let Some(mut pair) = self.pairs.remove(&number.0) else { return };
        // In error first: the device then says of the receive requests that it holds, that it will not fill them. One that is
        // half filled when the device is of a kind that says nothing of it (the kernel's soft-RoCE) is lost.
        self.crowd.posted -= pair.under_way();
        pair.fail(&self.context);
        self.queues.iter_mut().for_each(|queue| queue.let_go(number.0));
        let pieces: Vec<u8> = std::iter::from_fn(|| pair.is_done_with(true)).collect();
        pair.destroy(&self.context);
        if let Some(inner) = &mut self.inner {
            pieces.into_iter().for_each(|piece| inner.take_back(piece));
        }
    }

    fn writes_in_order(&self, number: QueuePairNumber) -> bool {
        let (Some(pair), Some(query)) =
            (self.pairs.get(&number.0), self.context.library.ibv_query_qp_data_in_order)
        else {
            return false;
        };
        // SAFETY: the pair is live, and the library only looks.
        unsafe { query(pair.raw, IBV_WR_RDMA_WRITE, 0) == 1 }
    }

    #[inline]
    fn post_send(&mut self, number: QueuePairNumber, request: &WorkRequest<'_>) -> Result<(), HcaRefusal> {
        self.post_chain(number, std::slice::from_ref(request))
    }

    #[inline(never)]
    fn send_few(
        &mut self,
        number: QueuePairNumber,
        id: u64,
        bytes: &[u8],
        signaled: bool,
    ) -> Result<(), HcaRefusal> {
        self.post_few(number, id, bytes, signaled, (IBV_WR_SEND, wr_rdma { remote_addr: 0, rkey: 0 }))
    }

    #[inline(never)]
    fn write_few(
        &mut self,
        number: QueuePairNumber,
        id: u64,
        bytes: &[u8],
        to: RemoteAddress,
        signaled: bool,
    ) -> Result<(), HcaRefusal> {
        self.post_few(
            number,
            id,
            bytes,
            signaled,
            (IBV_WR_RDMA_WRITE, wr_rdma { remote_addr: to.address, rkey: to.key.0 }),
        )
    }

    fn post_sends(
        &mut self,
        number: QueuePairNumber,
        requests: &[WorkRequest<'_>],
    ) -> Result<(), HcaRefusal> {
        let pair = self.pairs.get(&number.0).ok_or(HcaRefusal::Unknown)?;
        if !pair.has_room(requests.len() as u32) {
            return Err(HcaRefusal::Full);
        }
        let mut rest = requests;
        while !rest.is_empty() {
            // As many as fit into one chain with all their segments.
            let mut segments = 0;
            let fit = rest
                .iter()
                .take(CHAIN)
                .take_while(|request| {
                    segments += segments_of(&request.data);
                    segments <= MAX_SEGMENTS + CHAIN
                })
                .count()
                .max(1);
            let (now, later) = rest.split_at(fit);
            self.post_chain(number, now).map_err(|why| match why {
                // There was room: this is not what the caller may take for nothing posted.
                HcaRefusal::Full => HcaRefusal::Exhausted,
                why => why,
            })?;
            rest = later;
        }
        Ok(())
    }

    fn doorbells(&self) -> u64 {
        self.doorbells
    }

    #[inline]
    fn is_crowded(&self) -> bool {
        self.crowd.is_crowded()
    }

    #[inline]
    fn post_receive(
        &mut self,
        queue: SharedReceiveQueueId,
        id: u64,
        segments: &[Segment],
    ) -> Result<(), HcaRefusal> {
        let &[segment] = segments else { return Err(HcaRefusal::Size) };
        self.post_receives(queue, &[(id, segment)])
    }

    fn post_receives(
        &mut self,
        queue: SharedReceiveQueueId,
        requests: &[(u64, Segment)],
    ) -> Result<(), HcaRefusal> {
        let &queue = self.receives.get(queue.0 as usize).ok_or(HcaRefusal::Unknown)?;
        for requests in requests.chunks(CHAIN) {
            let mut parts = [EMPTY_SGE; CHAIN];
            let mut chain = [EMPTY_RECEIVE; CHAIN];
            for ((place, part), &(id, segment)) in chain.iter_mut().zip(&mut parts).zip(requests) {
                *part = ibv_sge { addr: segment.address, length: segment.length, lkey: segment.key.0 };
                *place = ibv_recv_wr { wr_id: id | RECEIVE, next: null_mut(), sg_list: part, num_sge: 1 };
            }
            for at in 1..requests.len() {
                chain[at - 1].next = &mut chain[at];
            }
            let mut refused = null_mut();
            // SAFETY: the queue is live until `drop`; the chain ends with a null pointer and, as its segments, lies on our
            // stack, which the driver reads during the call.
            let result = unsafe {
                let post = (*(*queue).context).ops.post_srq_recv.ok_or(HcaRefusal::Invalid)?;
                post(queue, chain.as_mut_ptr(), &mut refused)
            };
            match result {
                0 => {}
                libc::ENOMEM => return Err(HcaRefusal::Full),
                -1 => return Err(refusal(errno())),
                errno => return Err(refusal(errno)),
            }
        }
        Ok(())
    }

    #[inline]
    fn poll(&mut self, queue: CompletionQueueId) -> Option<Completion> {
        let queue = self.queues.get_mut(queue.0 as usize)?;
        while let Some(done) = queue.pop() {
            let completion = translate(&done);
            let received = matches!(completion.work, CompletedWork::Receive | CompletedWork::ReceiveWrite);
            let Some(pair) = self.pairs.get_mut(&done.qp_num) else {
                // Of a queue pair that was destroyed: a receive request comes back, anything else is nobody's.
                if received {
                    return Some(completion);
                }
                continue;
            };
            if !received {
                self.crowd.posted -= pair.completed(done.status == IBV_WC_SUCCESS);
                if let Some(inner) = &mut self.inner {
                    while let Some(piece) = pair.is_done_with(false) {
                        inner.take_back(piece);
                    }
                }
                if done.status == IBV_WC_SUCCESS && done.wr_id & crate::completions::SILENT != 0 {
                    continue;
                }
            } else if done.status != IBV_WC_SUCCESS {
                pair.state = QueuePairState::Error;
            }
            return Some(completion);
        }
        None
    }

    fn progress(&mut self) -> bool {
        false
    }

    fn bell(&self) -> VerbsBell {
        VerbsBell::new(Arc::clone(&self.context), Arc::clone(&self.sleepers))
    }
}

impl Drop for Verbs {
    fn drop(&mut self) {
        for (_, pair) in self.pairs.drain() {
            pair.destroy(&self.context);
        }
        for queue in self.receives.drain(..) {
            // SAFETY: the queue pairs that used it are gone.
            unsafe { (self.context.library.ibv_destroy_srq)(queue) };
        }
        if let Some(inner) = self.inner.take() {
            inner.release(&self.context);
        }
        self.memory.release(&self.context);
    }
}

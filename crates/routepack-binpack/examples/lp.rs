//! x
use std::time::Instant;
use routepack_anneal::Stream;
use routepack_binpack::*;
use routepack_certificate::{Statement,max_pattern_value,Limits,Proof};
fn main(){
    for path in std::env::args().skip(1) {
        let v:Vec<u64>=std::fs::read_to_string(&path).unwrap().split_whitespace().map(|x|x.parse().unwrap()).collect();
        let (n,c)=(v[0] as usize,v[1]); let w=if v.len()==n+2 {v[2..].to_vec()} else { v[2..].chunks(2).flat_map(|p| std::iter::repeat_n(p[0],p[1] as usize)).collect() };
        let st=Statement::bins(w,c); let types=Types::new(&st).unwrap(); let l1=volume_bound(&types).cells; let l2=l2_bound(&types).cells; let t0=Instant::now(); let df=dual_feasible_bound(&types,u64::MAX).unwrap(); let tdf=t0.elapsed().as_secs_f64();
        let b=best_fit_decreasing(&st.sizes,c,None); let t0=Instant::now(); let mut best=b.len(); let mut pool=types.patterns_of(&b);
        for a in fill_tries(&Stream::new(7),60).take(20) { if let Some(p)=subset_sum_fill(&types,a,best as u64,&||false){ best=best.min(p.len()); pool.extend(p);} if best as u64<=l2.max(l1) {break;} }
        let tf=t0.elapsed().as_secs_f64(); let t0=Instant::now();
        let lim=ColumnLimits{wanted:best as u64,exhaust:true,rounds:1000,types:600,table_bytes:1<<30};
        let g=generate_columns(&types,&pool,&lim,&||false).unwrap(); let tl=t0.elapsed().as_secs_f64(); let t0=Instant::now();
        let bd=g.bound.as_ref().unwrap(); let Proof::Weights(ws)=&bd.proof else{panic!()}; let m=max_pattern_value(&st,ws,&Limits::default());
        println!("{path} n {} m {} c {c} L1 {l1} L2 {l2} DFF {} ({} {tdf:.3}s) bfd {} fill {best} {tf:.3}s | LP {:.6} bound {} conv {} rounds {} cols {} {tl:.3}s | M {:?} {:.3}s",st.sizes.len(),types.len(),df.cells,df.method,b.len(),g.value,bd.cells,g.converged,g.rounds,g.patterns.len(),m.map(|m| types.total_weight(ws).div_ceil(m.into())),t0.elapsed().as_secs_f64());
    }
}

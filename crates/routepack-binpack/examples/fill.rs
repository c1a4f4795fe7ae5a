//! x
use std::time::Instant;
use routepack_anneal::Stream;
use routepack_binpack::*;
use routepack_certificate::Statement;
fn knife(stream:&mut Stream, n:usize, c:u64, mu:f64, sigma:f64, cap:f64, slack:f64)->Vec<u64>{
    // log-normal, then scaled so that the volume is k*c*(1-slack)
    let mut w:Vec<u64>=(0..n).map(|_| ((mu+sigma*stream.normal()).exp() as u64).clamp(1,(cap*c as f64) as u64)).collect();
    let total:u64=w.iter().sum(); let k=total.div_ceil(c); let mut target=(k as f64*c as f64*(1.0-slack)) as u64;
    // adjust by resizing random items
    let mut total=total; while total!=target { let i=stream.index(n); if total<target { let add=(target-total).min((c as f64*cap) as u64-w[i]).min(1+w[i]/4); w[i]+=add; total+=add; } else { let sub=(total-target).min(w[i]/4).min(w[i]-1); w[i]-=sub; total-=sub; } if target==0 {target=1;} }
    w
}
fn main(){
    let tries:u64=std::env::args().nth(1).map_or(10,|x|x.parse().unwrap()); let window:usize=std::env::args().nth(2).map_or(60,|x|x.parse().unwrap());
    for (n,c) in [(200,8192u64),(500,16384),(1000,32768),(2000,8192),(4096,32768),(16384,262144)] { for per in [2.5,4.0,8.0,16.0] { for slack in [0.0,0.001,0.005,0.015] {
        let mut ok=0; let mut bfdok=0; let mut t=0.0; let mut gaps=vec![]; let reps=5; let mut used=0;
        for rep in 0..reps { let mut s=Stream::new(1000*rep+n as u64+(per*8.0) as u64); let sigma=0.9; let mu=(c as f64/per).ln()-sigma*sigma/2.0; let w=knife(&mut s,n,c,mu,sigma,0.8,slack);
            let st=Statement::bins(w,c); let types=Types::new(&st).unwrap(); let l=l2_bound(&types).cells.max(volume_bound(&types).cells); let b=best_fit_decreasing(&st.sizes,c,None).len() as u64; if b==l {bfdok+=1;}
            let t0=Instant::now(); let mut best=b; for a in fill_tries(&Stream::new(7),window).take(tries as usize) { used+=1; if let Some(p)=subset_sum_fill(&types,a,best-1,&||false){ best=p.len() as u64; } if best<=l {break;} } t+=t0.elapsed().as_secs_f64(); if best==l {ok+=1;} gaps.push(best-l); }
        println!("n {n} c {c} per {per} slack {slack}: bfd {bfdok}/{reps} fill {ok}/{reps} gaps {gaps:?} tries {used} {:.3}s",t/reps as f64);
    }}}
}
